"""Loss and accuracy of a whole split, with the parameters as they are."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from qlrstudy.spec import Split, Task


class Quality(NamedTuple):
    """Mean loss and accuracy over a split; NaN for a task without classes."""

    loss: float
    accuracy: float


def evaluate(task: Task, params: Any, state: Any, split: Split) -> Quality:
    """Sweep a split in evaluation mode; each example, or token, counts once."""
    # Convolutions inside a compiled loop are slow on a CPU; see `loops`.
    if task.convolutional and jax.default_backend() == "cpu":
        steps = zip(*_plan(task, split), strict=True)
        parts = [_batch(task)(params, state, split, *step) for step in steps]
        sums = jax.tree.map(lambda *all_: sum(all_), *parts)
    else:
        sums = _sweep(task)(params, state, split)
    loss, correct, total = map(float, jax.device_get(sums))
    return Quality(
        loss / total, float("nan") if task.accuracy is None else correct / total
    )


def _plan(task: Task, split: Split) -> tuple[Array, Array]:
    return task.sampling.sweep(len(split.inputs), task.evaluation_shape)


def _sums(
    task: Task, params: Any, state: Any, split: Split, indices: Array, weights: Array
) -> tuple[Array, Array, Array]:
    """Weighted sums of loss, correctness and one over a batch."""
    batch = task.sampling.gather(split, indices, weights, task.evaluation_shape)
    outputs, _ = task.predict(params, batch.inputs, state, training=False)
    losses = task.likelihood.loss(outputs, batch.targets)
    correct: Array = jnp.zeros_like(losses)
    if task.accuracy is not None:
        correct = task.accuracy(outputs, batch.targets)
    return (
        jnp.vdot(batch.weights, losses),
        jnp.vdot(batch.weights, correct),
        jnp.sum(batch.weights),
    )


@functools.cache
def _batch(task: Task) -> Callable[..., Any]:
    return jax.jit(functools.partial(_sums, task))


@functools.cache
def _sweep(task: Task) -> Callable[..., Any]:
    @jax.jit
    def sweep(params: Any, state: Any, split: Split) -> Any:
        sums = jax.lax.map(
            lambda step: _sums(task, params, state, split, *step), _plan(task, split)
        )
        return jax.tree.map(jnp.sum, sums)

    return sweep
