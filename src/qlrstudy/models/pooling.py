"""The pool of a ResNet's stem, from slices: XLA is slow with its gradient on a CPU."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def max_pool(
    x: Float[Array, "batch height width channels"],
) -> Float[Array, "batch height/2 width/2 channels"]:
    """The greatest of each 3x3 neighbours, two apart, of maps of even sizes.

    The same as `flax.linen.max_pool(x, (3, 3), (2, 2), "SAME")`, and so is its
    gradient, but that those which are equally the greatest share it.
    """
    return _along(_along(x, axis=2), axis=1)


def _along(x: Array, axis: int) -> Array:
    pairs = x.reshape(*x.shape[:axis], -1, 2, *x.shape[axis + 1 :])
    first, second = (jnp.take(pairs, i, axis + 1) for i in range(2))
    # The first of the next pair; after the last pair there is none.
    outside = jnp.full_like(jax.lax.slice_in_dim(first, 0, 1, axis=axis), -jnp.inf)
    later = jax.lax.slice_in_dim(first, 1, None, axis=axis)
    third = jnp.concatenate([later, outside], axis)
    return jnp.maximum(jnp.maximum(first, second), third)
