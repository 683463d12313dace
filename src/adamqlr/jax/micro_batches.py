"""A batch that does not fit into memory at once, piece by piece."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree

from adamqlr.settings import check_range


def micro_batched(
    predict: Callable[..., PyTree],
    parts: int,
    has_aux: bool = False,
) -> Callable[..., PyTree]:
    """Evaluate a model on equal parts of a batch, one after the other.

    The objective stays that of the whole batch, so that loss, gradient, curvature and
    weights are exactly what they were; only what the model keeps for the gradient is
    that of one part, at the cost of one more forward pass. Layers that mix examples, as
    batch norm does, mix those of a part.

    Args:
        predict: maps `(params, inputs)` to outputs, examples on the first axis. What it
            is given by name, as `trainer` hands over `state` and `key`, each part gets,
            the key as one of its own.
        parts: how many; the number of examples must be a multiple.
        has_aux: whether `predict` returns `(outputs, aux)`, as for `Objective`. Every
            part begins with the same model state, so that of the states that they
            return numbers are averaged, and of what else there is (counts, keys) the
            last is kept.

    Returns:
        A function like `predict`.

    Example:
        >>> import jax.numpy as jnp
        >>> from adamqlr.jax import Gaussian, Objective, micro_batched
        >>> x = jnp.linspace(-1, 1, 8)[:, None]
        >>> predict = micro_batched(lambda w, x: x * w, parts=4)
        >>> float(Objective(predict, Gaussian(), x, x)(jnp.ones(1)))
        0.0
    """
    check_range("parts", parts, 1)

    def cut(leaf: Array) -> Array:
        if leaf.shape[0] % parts:
            raise ValueError(
                f"parts={parts} must divide the {leaf.shape[0]} examples of the batch: "
                "fill it up with examples of weight 0, or choose another number"
            )
        return leaf.reshape(parts, -1, *leaf.shape[1:])

    def predict_all(params: optax.Params, inputs: PyTree, **own: Any) -> PyTree:
        @jax.checkpoint
        def one(numbered: tuple[Array, PyTree]) -> PyTree:
            number, part = numbered
            named = dict(own)
            if "key" in named:  # One dropout mask for all parts would be none.
                named["key"] = jax.random.fold_in(named["key"], number)
            return predict(params, part, **named)

        numbered = jnp.arange(parts), jax.tree.map(cut, inputs)
        returned = jax.lax.map(one, numbered)
        join = lambda leaf: leaf.reshape(-1, *leaf.shape[2:])
        if not has_aux:
            return jax.tree.map(join, returned)
        outputs, aux = returned
        return jax.tree.map(join, outputs), jax.tree.map(_of_all_parts, aux)

    return predict_all


def _of_all_parts(leaf: Array) -> Array:
    return leaf.mean(0) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf[-1]
