"""AdamQLR as optax transformations: Adam says where to go, a model says how far."""

from adamqlr.jax.curvature import (
    Curvature,
    Fisher,
    GaussNewton,
    Hessian,
    Look,
    OutputMetric,
    Point,
    Probe,
    Subsampled,
    Trial,
)
from adamqlr.jax.heads import Heads
from adamqlr.jax.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
    Poisson,
    Scale,
)
from adamqlr.jax.memory import Seen
from adamqlr.jax.objective import Objective
from adamqlr.jax.optimisers import adamqlr, paper_adamqlr, sgdqlr
from adamqlr.jax.robust import Huber, Laplace
from adamqlr.jax.state import QLRState, StepInfo
from adamqlr.jax.training import Trainer, TrainingState, trainer
from adamqlr.jax.transform import qlr
from adamqlr.rules import Limit

__all__ = [
    "Bernoulli",
    "Categorical",
    "Curvature",
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
    "Point",
    "Poisson",
    "Probe",
    "QLRState",
    "Scale",
    "Seen",
    "StepInfo",
    "Subsampled",
    "Trainer",
    "TrainingState",
    "Trial",
    "adamqlr",
    "paper_adamqlr",
    "qlr",
    "sgdqlr",
    "trainer",
]
