"""AdamQLR as a `torch.optim.Optimizer`: Adam says where to go, a model says how far."""

from adamqlr.rules import Limit
from adamqlr.torch.curvature import (
    Curvature,
    Fisher,
    GaussNewton,
    Hessian,
    Look,
    OutputMetric,
    Probe,
    Subsampled,
    Trial,
)
from adamqlr.torch.directions import Direction, direction_of
from adamqlr.torch.heads import Heads
from adamqlr.torch.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
    Poisson,
    Scale,
)
from adamqlr.torch.objective import Accumulated, Objective
from adamqlr.torch.optimisers import SGDQLR, AdamQLR, PaperAdamQLR
from adamqlr.torch.point import Point
from adamqlr.torch.robust import Huber, Laplace
from adamqlr.torch.rule import QLR
from adamqlr.torch.step import StepInfo

__all__ = [
    "Accumulated",
    "AdamQLR",
    "Bernoulli",
    "Categorical",
    "Curvature",
    "Direction",
    "Fisher",
    "GaussNewton",
    "Gaussian",
    "Heads",
    "Hessian",
    "HeteroscedasticGaussian",
    "Huber",
    "Laplace",
    "Likelihood",
    "Limit",
    "Look",
    "Objective",
    "OutputMetric",
    "PaperAdamQLR",
    "Point",
    "Poisson",
    "Probe",
    "QLR",
    "SGDQLR",
    "Scale",
    "StepInfo",
    "Subsampled",
    "Trial",
    "direction_of",
]
