"""The arguments of `update`, checked where users hand them over."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from adamqlr.jax.curvature import ValueFn
from adamqlr.jax.scalars import scalar_dtype


def checked_arguments(
    params: optax.Params | None,
    value: Array | None,
    grad: optax.Updates | None,
    value_fn: ValueFn | None,
) -> tuple[Float[Array, ""], optax.Params, ValueFn]:
    """Refuse a call without all it needs, saying what to pass."""
    given = {"params": params, "value": value, "grad": grad, "value_fn": value_fn}
    missing = [name for name, argument in given.items() if argument is None]
    if params is None or value is None or value_fn is None or missing:
        raise ValueError(
            f"update lacks {', '.join(missing)}: call train_step(optimiser, "
            "objective, params, state), or update(grad, state, params, value=value, "
            "grad=grad, value_fn=objective), where value, grad = "
            "jax.value_and_grad(objective)(params)"
        )
    if jnp.shape(value) != ():
        raise ValueError(
            f"value must be the scalar loss at params, got shape {jnp.shape(value)}"
        )
    if jax.tree.structure(grad) != jax.tree.structure(params):
        raise ValueError(
            "grad must be the loss's gradient, with the structure of params "
            f"{jax.tree.structure(params)}, got {jax.tree.structure(grad)}"
        )
    if not callable(value_fn):
        raise TypeError(
            "value_fn must be a function of the parameters that returns the loss, "
            f"got {type(value_fn).__name__}"
        )
    return jnp.asarray(value, scalar_dtype(params)), params, value_fn
