"""A training step for people who do not know optax."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from adamqlr.jax.curvature import scalar_dtype
from adamqlr.jax.likelihoods import Likelihood
from adamqlr.jax.objective import Objective
from adamqlr.jax.optimisers import adamqlr


class TrainingState(NamedTuple):
    """All that training carries besides the parameters.

    Attributes:
        optimiser: state of the optimiser, with `info` on the last step in it.
        loss: of the last batch, before its step.
        model: state of the model (batch-norm statistics, say) or `None`.
        key: random key of the next step, or `None`.
    """

    optimiser: Any
    loss: Float[Array, ""]
    model: Any = None
    key: PRNGKeyArray | None = None


class Trainer(NamedTuple):
    """The two functions of `trainer`."""

    init: Callable[..., TrainingState]
    step: Callable[[Any, TrainingState, tuple], tuple[Any, TrainingState]]


def trainer(
    model: Callable[..., Any],
    likelihood: Likelihood,
    optimiser: optax.GradientTransformation | None = None,
) -> Trainer:
    r"""Make `init(params)` and `step(params, state, batch)` out of a model.

    `step` is pure and not yet compiled: wrap it in `jax.jit`, or scan over it. A batch
    is `(inputs, targets)` or `(inputs, targets, weights)`.

    A model with state or randomness gets them by name, if `init` was given them:
    `model(params, inputs, state=...)` returns `(outputs, new state)`, and
    `model(params, inputs, key=...)` draws from a key that is new at each step and the
    same in all evaluations of one step. The new state is the one that belongs to the
    gradient; that of the trial evaluation is thrown away.

    Args:
        model: maps `(params, inputs)` to outputs, in training mode.
        likelihood: what the outputs say about the targets.
        optimiser: any optax optimiser; `None` for `adamqlr()`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from adamqlr.jax import Categorical, trainer
        >>> init, step = trainer(lambda w, x: x @ w, Categorical())
        >>> x, y = jnp.eye(3), jnp.arange(3)
        >>> params = jnp.zeros((3, 3))
        >>> state = init(params)
        >>> for _ in range(40):
        ...     params, state = jax.jit(step)(params, state, (x, y))
        >>> bool(state.loss < 0.1)
        True
    """
    chosen = adamqlr() if optimiser is None else optimiser
    rule = optax.with_extra_args_support(chosen)

    def init(
        params: Any, *, state: Any = None, key: PRNGKeyArray | None = None
    ) -> TrainingState:
        loss = jnp.zeros((), scalar_dtype(params))
        return TrainingState(rule.init(params), loss, state, key)

    def step(
        params: Any, state: TrainingState, batch: tuple
    ) -> tuple[Any, TrainingState]:
        inputs, targets, weights = batch if len(batch) == 3 else (*batch, None)
        own = {} if state.model is None else {"state": state.model}
        key = state.key
        if key is not None:
            key, own["key"] = jax.random.split(key)

        def predict(params: Any, inputs: Any) -> Any:
            return model(params, inputs, **own)

        objective = Objective(
            predict, likelihood, inputs, targets, weights, state.model is not None
        )
        gradient = jax.value_and_grad(objective.with_outputs, has_aux=True)
        (loss, (outputs, model_state)), grad = gradient(params)
        updates, optimiser_state = rule.update(
            grad,
            state.optimiser,
            params,
            value=loss,
            grad=grad,
            value_fn=objective,
            outputs=outputs,
        )
        loss = loss.astype(state.loss.dtype)
        return (
            optax.apply_updates(params, updates),
            TrainingState(optimiser_state, loss, model_state, key),
        )

    return Trainer(init, step)
