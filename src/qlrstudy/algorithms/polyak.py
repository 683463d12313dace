"""Steps as long as the loss is above zero, by Polyak: for SGD, and MoMo's for Adam.

A loss cannot be below zero in any of the tasks, which is all they need to know.
"""

import optax

from qlrstudy.algorithms.stepper import adam_batch, loss_alone, optax_algorithm
from qlrstudy.spec import Settings, Task


def _polyak(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    return optax.polyak_sgd(max_learning_rate=settings["max_learning_rate"], f_min=0.0)


def _momo_adam(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    return optax.contrib.momo_adam(settings["max_learning_rate"])


POLYAK_SGD = optax_algorithm(
    "polyak-sgd",
    "Polyak SGD",
    _polyak,
    batch=adam_batch,
    defaults={"max_learning_rate": 1.0},
    report=loss_alone,
)

MOMO_ADAM = optax_algorithm(
    "momo-adam",
    "MoMo-Adam",
    _momo_adam,
    batch=adam_batch,
    defaults={"max_learning_rate": 1e-2},
    report=loss_alone,
)
