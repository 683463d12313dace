"""An average of the iterates, evaluated in their place, around any stepper."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from qlrstudy.spec import Batch, ModelState, Params, Stepper, StepReport


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
        2013; its $\gamma$ is that of DoG's authors, and of the library's `Average`.
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
