"""Adam times an estimate of the distance to the solution: D-Adaptation and Prodigy.

With their authors' defaults, by the implementations that optax keeps; those correct the
bias of Adam's moments as well, which in the authors' code is an option. Prodigy's
authors recommend a cosine down to zero, which has to know the end of the run; the same
average of the iterates as AdamQLR's has not.
"""

from typing import Any

import optax
from jaxtyping import Array

from qlrstudy.algorithms.adamw_cosine import cosine
from qlrstudy.algorithms.averaging import polynomial_average
from qlrstudy.algorithms.stepper import adam_batch, optax_algorithm, told_rate
from qlrstudy.spec import Settings, Task


def _prodigy(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task, settings
    return optax.contrib.prodigy()


def _prodigy_cosine(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    return optax.contrib.prodigy(lambda count: cosine(count, 0, settings["steps"]))


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

PRODIGY_COSINE = optax_algorithm(
    "prodigy-cosine",
    "Prodigy (cosine)",
    _prodigy_cosine,
    batch=adam_batch,
    defaults={},
    report=told_rate(_estimate),
    scheduled=True,
)

PRODIGY_AVERAGE = optax_algorithm(
    "prodigy-average",
    "Prodigy (average)",
    _prodigy,
    batch=adam_batch,
    defaults={},
    report=told_rate(_estimate),
    around=polynomial_average,
)

DADAPT_ADAM = optax_algorithm(
    "dadapt-adam",
    "D-Adaptation (Adam)",
    _dadapt,
    batch=adam_batch,
    defaults={},
    report=told_rate(_estimate),
)
