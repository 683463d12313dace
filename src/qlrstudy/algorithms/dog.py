"""Steps of distance over gradients: DoG, and DoWG, which weighs the gradients.

With their authors' defaults, by the implementations that optax keeps.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int, PRNGKeyArray

from qlrstudy.algorithms.stepper import adam_batch, optax_algorithm, told_rate
from qlrstudy.spec import Batch, ModelState, Params, Settings, Stepper, StepReport, Task


class Averaged(NamedTuple):
    """A stepper's carry, and the average of what it would have evaluated."""

    carry: Any
    average: tuple[Params, ModelState]
    taken: Int[Array, ""]


def polynomial_average(inner: Stepper, power: float = 8.0) -> Stepper:
    r"""Evaluate an average of all iterates in place of the last one.

    $$\bar x_t = (1 - w_t)\,\bar x_{t-1} + w_t x_t, \qquad
      w_t = (1 + \gamma) / (t + \gamma)$$

    Batch norm's statistics are averaged with the parameters they were measured at.

    Args:
        inner: takes the steps.
        power: $\gamma \ge 0$; the larger, the more the last iterates weigh.

    References:
        Shamir and Zhang, *Stochastic Gradient Descent for Non-smooth Optimization*,
        2013; its $\gamma$ is that of DoG's authors.
    """

    def init(
        params: Params, model_state: ModelState, batch: Batch, key: PRNGKeyArray
    ) -> Averaged:
        carry = inner.init(params, model_state, batch, key)
        return Averaged(carry, inner.params(carry), jnp.zeros((), jnp.int32))

    def step(
        carried: Averaged, batch: Batch, key: PRNGKeyArray
    ) -> tuple[Averaged, StepReport]:
        carry, report = inner.step(carried.carry, batch, key)
        taken = carried.taken + 1
        weight = (1 + power) / (taken + power)
        blend = lambda old, new: (1 - weight) * old + weight * new
        average = jax.tree.map(blend, carried.average, inner.params(carry))
        return Averaged(carry, average, taken), report

    return Stepper(init, step, lambda carried: carried.average)


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
