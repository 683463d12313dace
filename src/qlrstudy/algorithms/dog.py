"""Steps of distance over gradients: DoG, and DoWG, which weighs the gradients.

With their authors' defaults, by the implementations that optax keeps.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from qlrstudy.algorithms.averaging import polynomial_average
from qlrstudy.algorithms.stepper import adam_batch, optax_algorithm, told_rate
from qlrstudy.spec import Settings, Task


def _dog(task: Task, settings: Settings) -> optax.GradientTransformation:
    del settings
    # The first distance, relative to the parameters; larger if there is batch norm.
    _, model_state = jax.eval_shape(task.init, jax.random.key(0))
    first = 1e-4 if jax.tree.leaves(model_state) else 1e-6
    return optax.contrib.dog(init_step=("heuristic", first))


def _dowg(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task, settings
    return optax.contrib.dowg()


def _dog_rate(state: Any) -> Array:
    found = optax.tree.get(state, "DoGState")
    return found.max_dist / jnp.sqrt(found.sum_sq_norm_grads)


def _dowg_rate(state: Any) -> Array:
    found = optax.tree.get(state, "DoWGState")
    return found.estim_sq_dist / jnp.sqrt(found.weighted_sq_norm_grads)


# Its authors call the average crucial, as no schedule makes the steps shorter.
DOG = optax_algorithm(
    "dog",
    "DoG",
    _dog,
    batch=adam_batch,
    defaults={},
    report=told_rate(_dog_rate),
    around=polynomial_average,
)

DOWG = optax_algorithm(
    "dowg",
    "DoWG",
    _dowg,
    batch=adam_batch,
    defaults={},
    report=told_rate(_dowg_rate),
)
