"""A whole training step: gradient, update, new parameters."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from adamqlr.jax.arguments import check_model_state, checked_batch
from adamqlr.jax.curvature import ValueFn
from adamqlr.jax.likelihoods import Likelihood, as_likelihood
from adamqlr.jax.objective import Objective
from adamqlr.jax.optimisers import adam_qlr
from adamqlr.jax.scalars import scalar_dtype, squares_are_finite


class TrainStep(NamedTuple):
    """What `train_step` returns.

    Attributes:
        params: the new parameters.
        state: the optimiser's new state.
        loss: of the batch, before the step.
        aux: what the objective's `predict` returns beside its outputs, or `None`.
    """

    params: optax.Params
    state: optax.OptState
    loss: Float[Array, ""]
    aux: PyTree


def train_step(
    optimiser: optax.GradientTransformation,
    objective: ValueFn,
    params: optax.Params,
    state: optax.OptState,
) -> TrainStep:
    """Take the gradient, update, and apply the update: one step of training.

    It hands over all that an optimiser of this library asks for, the outputs of the
    gradient's forward pass among them, and serves any other optax optimiser as well.

    Args:
        optimiser: any optax optimiser.
        objective: an `Objective`, or any function of the parameters.
        params: of the model.
        state: of the optimiser.

    Examples:
        >>> import jax.numpy as jnp
        >>> from adamqlr.jax import Gaussian, Objective, adam_qlr, train_step
        >>> x = jnp.eye(2)
        >>> objective = Objective(lambda w, x: x @ w, Gaussian(), x, x)
        >>> optimiser, params = adam_qlr(), jnp.zeros((2, 2))
        >>> state = optimiser.init(params)
        >>> params, state, loss, _ = train_step(optimiser, objective, params, state)
        >>> float(loss), bool(objective(params) < loss)
        (0.5, True)
    """
    return _checked_step(optimiser, objective, params, state)[0]


def _checked_step(
    optimiser: optax.GradientTransformation,
    objective: ValueFn,
    params: optax.Params,
    state: optax.OptState,
) -> tuple[TrainStep, Bool[Array, ""]]:
    """See `train_step`; also tells whether the batch is sound.

    Its loss and gradient are finite, and it is not of padding alone.
    """
    sound = True
    if isinstance(objective, Objective):
        gradient = jax.value_and_grad(objective.with_outputs, has_aux=True)
        (loss, (outputs, aux)), grad = gradient(params)
        known, sound = {"outputs": outputs}, objective.has_examples()
    else:
        loss, grad = jax.value_and_grad(objective)(params)
        known, aux = {}, None
    update = optax.with_extra_args_support(optimiser).update
    updates, state = update(
        grad, state, params, value=loss, grad=grad, value_fn=objective, **known
    )
    made = TrainStep(optax.apply_updates(params, updates), state, loss, aux)
    return made, jnp.isfinite(loss) & squares_are_finite(grad) & sound


class TrainingState(NamedTuple):
    """All that training carries besides the parameters.

    Attributes:
        optimiser: state of the optimiser, with `info` on the last step in it.
        loss: of the last batch, before its step.
        model: state of the model (batch-norm statistics, say) or `None`.
        key: random key of the next step, or `None`.
    """

    optimiser: optax.OptState
    loss: Float[Array, ""]
    model: PyTree = None
    key: PRNGKeyArray | None = None


class Trainer(NamedTuple):
    """The two functions of `trainer`."""

    init: Callable[..., TrainingState]
    step: Callable[
        [optax.Params, TrainingState, tuple], tuple[optax.Params, TrainingState]
    ]


def trainer(
    model: Callable[..., PyTree],
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
        optimiser: any optax optimiser; `None` for `adam_qlr()`.

    Examples:
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
    likelihood = as_likelihood(likelihood)
    chosen = adam_qlr() if optimiser is None else optimiser
    rule = optax.with_extra_args_support(chosen)

    def init(
        params: optax.Params, *, state: PyTree = None, key: PRNGKeyArray | None = None
    ) -> TrainingState:
        loss = jnp.zeros((), scalar_dtype(params))
        return TrainingState(rule.init(params), loss, state, key)

    def step(
        params: optax.Params, state: TrainingState, batch: tuple
    ) -> tuple[optax.Params, TrainingState]:
        inputs, targets, weights = checked_batch(batch)
        own = {} if state.model is None else {"state": state.model}
        key = state.key
        if key is not None:
            key, own["key"] = jax.random.split(key)

        def predict(params: optax.Params, inputs: PyTree) -> PyTree:
            return model(params, inputs, **own)

        objective = Objective(
            predict, likelihood, inputs, targets, weights, state.model is not None
        )
        made, sound = _checked_step(rule, objective, params, state.optimiser)
        params, optimiser_state, loss, model_state = made
        check_model_state(model_state, state.model)
        # Statistics of a batch that is not finite would spoil all later ones.
        model_state = optax.tree.where(sound, model_state, state.model)
        loss = loss.astype(state.loss.dtype)
        return params, TrainingState(optimiser_state, loss, model_state, key)

    return Trainer(init, step)
