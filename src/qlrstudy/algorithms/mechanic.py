"""Mechanic around Adam: a scale for all of Adam's steps so far, learnt as they go."""

from typing import Any

import jax.numpy as jnp
import optax
from jaxtyping import Array

from qlrstudy.algorithms.stepper import adam_batch, optax_algorithm, told_rate
from qlrstudy.spec import Settings, Task


def _build(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task, settings
    # With a rate of one, as its authors recommend; the scale makes up for any.
    return optax.contrib.mechanize(optax.adam(1.0))


def _scale(state: Any) -> Array:
    return jnp.sum(state.s)


MECHANIC_ADAM = optax_algorithm(
    "mechanic-adam",
    "Mechanic (Adam)",
    _build,
    batch=adam_batch,
    defaults={},
    report=told_rate(_scale),
)
