"""AdamQLR as optax transformations: Adam says where to go, a model says how far."""

try:
    import optax as _  # noqa: F401 - only to say what to install
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "adamqlr.jax needs JAX: pip install 'adamqlr[jax]'"
    ) from error


from adamqlr.jax.curvature import (
    Curvature,
    Fisher,
    GaussNewton,
    Hessian,
    LossProbe,
    OutputMetric,
    Point,
    Probe,
    Subsampled,
)
from adamqlr.jax.heads import Heads
from adamqlr.jax.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
    Poisson,
)
from adamqlr.jax.micro_batches import micro_batched
from adamqlr.jax.objective import Objective
from adamqlr.jax.optimisers import adam_qlr, paper_adam_qlr, sgd_qlr
from adamqlr.jax.robust import Huber, Laplace
from adamqlr.jax.training import Trainer, TrainingState, TrainStep, train_step, trainer
from adamqlr.jax.transform import QLRState, evaluation_params, qlr
from adamqlr.measurements import Look, Scale, Trial
from adamqlr.memory import Memory
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

__all__ = [
    "ANY_LOSS",
    "PAPER",
    "Average",
    "Bernoulli",
    "Categorical",
    "Curvature",
    "Damping",
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
    "Memory",
    "Objective",
    "OutputMetric",
    "Point",
    "Poisson",
    "Probe",
    "QLRState",
    "Rule",
    "Scale",
    "StepInfo",
    "Subsampled",
    "TrainStep",
    "Trainer",
    "TrainingState",
    "Trial",
    "adam_qlr",
    "evaluation_params",
    "micro_batched",
    "paper_adam_qlr",
    "qlr",
    "sgd_qlr",
    "train_step",
    "trainer",
]
