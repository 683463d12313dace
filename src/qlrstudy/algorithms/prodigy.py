"""Adam times an estimate of the distance to the solution: D-Adaptation and Prodigy.

With their authors' defaults, by the implementations that optax keeps; those correct the
bias of Adam's moments as well, which in the authors' code is an option.
"""

from typing import Any

import optax
from jaxtyping import Array

from qlrstudy.algorithms.stepper import adam_batch, optax_algorithm, told_rate
from qlrstudy.spec import Settings, Task


def _prodigy(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task, settings
    return optax.contrib.prodigy()


def _dadapt(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task, settings
    return optax.contrib.dadapt_adamw()


def _estimate(state: Any) -> Array:
    return state.estim_lr


PRODIGY = optax_algorithm(
    "prodigy",
    "Prodigy",
    _prodigy,
    batch=adam_batch,
    defaults={},
    report=told_rate(_estimate),
)

DADAPT_ADAM = optax_algorithm(
    "dadapt-adam",
    "D-Adaptation (Adam)",
    _dadapt,
    batch=adam_batch,
    defaults={},
    report=told_rate(_estimate),
)
