"""Gradient descent on the parameters and, at once, on its own learning rate."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from qlrstudy.algorithms.stepper import adam_batch, optax_algorithm
from qlrstudy.spec import LogUniform, Settings, StepReport, Task


class HypergradientState(NamedTuple):
    """The learning rate of the last step, and its gradient."""

    learning_rate: Float[Array, ""]
    grad: Any


def hypergradient_descent(
    learning_rate: float, hyper_learning_rate: float
) -> optax.GradientTransformation:
    r"""SGD-HD: the loss's derivative by the last learning rate is at hand for free.

    $$\alpha_t = \alpha_{t-1} + \beta\, g_t^\top g_{t-1}, \qquad
      \theta_{t+1} = \theta_t - \alpha_t g_t$$

    Args:
        learning_rate: $\alpha_0$.
        hyper_learning_rate: $\beta$.

    References:
        Baydin et al., *Online Learning Rate Adaptation with Hypergradient Descent*,
        2018, algorithm 4.
    """

    def init(params: Any) -> HypergradientState:
        return HypergradientState(
            jnp.asarray(learning_rate, jnp.float32), optax.tree.zeros_like(params)
        )

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        agreement = optax.tree.vdot(updates, state.grad)
        rate = state.learning_rate + hyper_learning_rate * agreement
        return optax.tree.scale(-rate, updates), HypergradientState(rate, updates)

    return optax.GradientTransformation(init, update)


def _build(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    return hypergradient_descent(
        settings["learning_rate"], settings["hyper_learning_rate"]
    )


def _report(loss: Float[Array, ""], state: Any, settings: Settings) -> StepReport:
    del settings
    nan = jnp.full((), jnp.nan)
    return StepReport(loss, state.learning_rate, nan, nan)


BAYDIN_SGD = optax_algorithm(
    "baydin-sgd",
    "Baydin SGD",
    _build,
    batch=adam_batch,
    defaults={"learning_rate": 1e-2, "hyper_learning_rate": 1e-4},
    search={
        "learning_rate": LogUniform(1e-6, 1.0),
        "hyper_learning_rate": LogUniform(1e-6, 1.0),
    },
    report=_report,
)
