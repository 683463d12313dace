"""AdamQLR as a `torch.optim.Optimizer`: Adam says where to go, a model says how far."""

try:
    import torch as _  # noqa: F401 - only to say what to install
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "adamqlr.torch needs PyTorch: pip install 'adamqlr[torch]'"
    ) from error


from adamqlr.measurements import Look, Scale, Trial
from adamqlr.rules import Limit
from adamqlr.settings import (
    ANY_LOSS,
    PAPER,
    Average,
    Damping,
    Horizon,
    KLBudget,
    Rule,
)
from adamqlr.step import StepInfo
from adamqlr.torch.curvature import (
    Curvature,
    Fisher,
    GaussNewton,
    Hessian,
    LossProbe,
    OutputMetric,
    Probe,
    Subsampled,
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
)
from adamqlr.torch.objective import Accumulated, Objective
from adamqlr.torch.optimisers import SGDQLR, AdamQLR, PaperAdamQLR
from adamqlr.torch.point import Point
from adamqlr.torch.qlr import QLR
from adamqlr.torch.robust import Huber, Laplace

__all__ = [
    "ANY_LOSS",
    "PAPER",
    "Accumulated",
    "AdamQLR",
    "Average",
    "Bernoulli",
    "Categorical",
    "Curvature",
    "Damping",
    "Direction",
    "Fisher",
    "GaussNewton",
    "Gaussian",
    "Heads",
    "Hessian",
    "Horizon",
    "HeteroscedasticGaussian",
    "Huber",
    "KLBudget",
    "Laplace",
    "Likelihood",
    "Limit",
    "Look",
    "LossProbe",
    "Objective",
    "OutputMetric",
    "PaperAdamQLR",
    "Point",
    "Poisson",
    "Probe",
    "QLR",
    "Rule",
    "SGDQLR",
    "Scale",
    "StepInfo",
    "Subsampled",
    "Trial",
    "direction_of",
]
