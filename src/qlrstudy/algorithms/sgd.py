"""Gradient descent: plain, and with momentum and weight decay."""

import optax

from qlrstudy.algorithms.stepper import adam_batch, optax_algorithm
from qlrstudy.spec import Complement, LogUniform, Settings, Task

_LEARNING_RATE = LogUniform(1e-6, 1e-1)


def _minimal(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    return optax.sgd(settings["learning_rate"])


def _full(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    # The penalty joins the gradient before momentum: L2, not decoupled decay.
    return optax.chain(
        optax.add_decayed_weights(settings["weight_decay"]),
        optax.sgd(settings["learning_rate"], settings["momentum"]),
    )


SGD_MINIMAL = optax_algorithm(
    "sgd-minimal",
    "SGD Minimal",
    _minimal,
    batch=adam_batch,
    defaults={"learning_rate": 1e-2},
    search={"learning_rate": _LEARNING_RATE},
)

SGD_FULL = optax_algorithm(
    "sgd-full",
    "SGD Full",
    _full,
    batch=adam_batch,
    defaults={"learning_rate": 1e-2, "momentum": 0.9, "weight_decay": 1e-6},
    search={
        "learning_rate": _LEARNING_RATE,
        "momentum": Complement(1e-4, 0.3),
        "weight_decay": LogUniform(1e-10, 1.0),
    },
)
