"""One training step of any optax optimiser on any task: the stepper most share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from adamqlr.jax import Objective, StepInfo, train_step
from qlrstudy.spec import (
    Algorithm,
    Batch,
    BatchShape,
    ModelState,
    Params,
    SearchSpace,
    Settings,
    Stepper,
    StepReport,
    Task,
)

Optimiser = optax.GradientTransformation
Report = Callable[[Float[Array, ""], optax.OptState, Settings], StepReport]


class Carry(NamedTuple):
    """All that one step hands to the next."""

    params: Params
    model_state: ModelState
    optimiser_state: optax.OptState


def objective(task: Task, state: ModelState, batch: Batch) -> Objective:
    """The training loss of one batch; its aux are the new model state and the outputs.

    The weights travel with the inputs, so that a part of the batch keeps its own.
    """

    def predict(
        params: Params, rows: tuple[Array, Array]
    ) -> tuple[Array, tuple[ModelState, Array]]:
        inputs, weights = rows
        outputs, new = task.predict(
            params, inputs, state, training=True, weights=weights
        )
        return outputs, (new, outputs)

    rows = (batch.inputs, batch.weights)
    return Objective(
        predict, task.likelihood, rows, batch.targets, batch.weights, has_aux=True
    )


def accuracy(
    task: Task, outputs: Array, targets: Array, weights: Array
) -> Float[Array, ""]:
    """Share of a batch whose class is right; NaN for a task without classes."""
    if task.accuracy is None:
        return jnp.full((), jnp.nan)
    correct = task.accuracy(outputs, targets).astype(weights.dtype)
    return jnp.vdot(weights, correct) / jnp.sum(weights)


def stepper(
    task: Task, optimiser: Optimiser, report: Callable[[Array, Any], StepReport]
) -> Stepper:
    """Bind an optax optimiser to a task."""

    def init(
        params: Params, model_state: ModelState, batch: Batch, key: PRNGKeyArray
    ) -> Carry:
        del batch, key
        return Carry(params, model_state, optimiser.init(params))

    def step(carry: Carry, batch: Batch, key: PRNGKeyArray) -> tuple[Carry, StepReport]:
        del key
        params, state, loss, (model_state, outputs) = train_step(
            optimiser,
            objective(task, carry.model_state, batch),
            carry.params,
            carry.optimiser_state,
        )
        told = report(loss, state)
        right = accuracy(task, outputs, batch.targets, batch.weights)
        return Carry(params, model_state, state), told._replace(accuracy=right)

    return Stepper(init, step, lambda carry: (carry.params, carry.model_state))


def fixed_rate(
    loss: Float[Array, ""], state: optax.OptState, settings: Settings
) -> StepReport:
    """Report of an optimiser whose step size is its learning rate."""
    del state
    nan = jnp.full((), jnp.nan)
    return StepReport(loss, jnp.asarray(settings["learning_rate"]), nan, nan)


def told_rate(step_size: Callable[[optax.OptState], Array]) -> Report:
    """Report of an optimiser whose state tells the step size."""

    def report(
        loss: Float[Array, ""], state: optax.OptState, settings: Settings
    ) -> StepReport:
        del settings
        nan = jnp.full((), jnp.nan)
        return StepReport(loss, step_size(state), nan, nan)

    return report


def loss_alone(
    loss: Float[Array, ""], state: optax.OptState, settings: Settings
) -> StepReport:
    """Report of an optimiser that does not tell its step size."""
    del state, settings
    nan = jnp.full((), jnp.nan)
    return StepReport(loss, nan, nan, nan)


def chosen_step(
    loss: Float[Array, ""], state: optax.OptState, settings: Settings
) -> StepReport:
    """Report of a quadratic-model optimiser: what it measured and chose."""
    del settings
    info: StepInfo = optax.tree.get(
        state, "info", filtering=lambda _, leaf: isinstance(leaf, StepInfo)
    )
    return StepReport(loss, info.step_size, info.damping, info.reduction_ratio)


def optax_algorithm(
    name: str,
    title: str,
    build: Callable[[Task, Settings], Optimiser],
    *,
    batch: Callable[[Task], BatchShape],
    defaults: Settings,
    search: SearchSpace | None = None,
    report: Report = fixed_rate,
    around: Callable[[Stepper], Stepper] = lambda inner: inner,
    scheduled: bool = False,
    version: str = "",
) -> Algorithm:
    """An algorithm whose optimiser is an optax transformation.

    Args:
        name: see `Algorithm`, as `title`, `batch`, `defaults` and `search`.
        title: in the paper's tables.
        build: the optimiser, out of a task and (traced) settings.
        batch: the batch shape where none is given.
        defaults: each setting's value unless given.
        search: the space of those that are tuned.
        report: what to tell of a step.
        around: changes the stepper, for one that evaluates other parameters, say.
        scheduled: see `Algorithm`, as `version`.
        version: of the method.
    """

    def bind(task: Task, settings: Settings) -> Stepper:
        tell = lambda loss, state: report(loss, state, settings)
        return around(stepper(task, build(task, settings), tell))

    return Algorithm(
        name,
        title,
        bind,
        defaults,
        search or {},
        batch,
        scheduled=scheduled,
        version=version,
    )


def adam_batch(task: Task) -> BatchShape:
    """The batch size people would take for the task."""
    return task.adam_batch


def qlr_batch(task: Task) -> BatchShape:
    """The large batch that second-order methods want."""
    return task.qlr_batch
