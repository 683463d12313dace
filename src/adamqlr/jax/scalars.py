"""The method's scalars in JAX: how to select one, their type, sums over parameters."""

import jax
import jax.numpy as jnp
import optax
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, PyTree

from adamqlr import rules

rules.selected.register(jax.Array, jnp.where)
rules.selected.register(Tracer, jnp.where)


def scalar_dtype(tree: PyTree) -> jnp.dtype:
    """The type of the method's scalars: as wide as the parameters, float32 at least."""
    return jnp.result_type(jnp.float32, *jax.tree.leaves(tree))


def inner_product(a: PyTree, b: PyTree) -> Float[Array, ""]:
    """Sum of products over two trees, in `scalar_dtype` also for bfloat16 leaves."""
    dtype = scalar_dtype((a, b))
    return jnp.asarray(
        optax.tree.vdot(optax.tree.cast(a, dtype), optax.tree.cast(b, dtype)), dtype
    )


def slope_and_square(grad: PyTree, direction: PyTree) -> tuple[Array, Array]:
    r"""$g^\top d$ and $d^\top d$ in one pass over both, as wide as `inner_product`."""
    dtype = scalar_dtype((grad, direction))
    zeros = jnp.zeros((), dtype), jnp.zeros((), dtype)
    add = lambda sums, more: (sums[0] + more[0], sums[1] + more[1])

    def products(g: Array, d: Array) -> Array:
        g, d = g.astype(dtype), d.astype(dtype)
        # Sums of rows, then of all rows: one long sum would be rounded at every number.
        rows = jax.lax.reduce((g * d, d * d), zeros, add, range(d.ndim)[-1:])
        return jnp.stack([jnp.sum(row) for row in rows])

    sums = jax.tree.leaves(jax.tree.map(products, grad, direction))
    slope, square = jnp.stack(sums).sum(0)
    return slope, square


def squares_are_finite(tree: PyTree) -> Bool[Array, ""]:
    """Whether each number of a tree has a square: none is NaN, infinite or too large.

    The least and the largest show it, so that no others are squared.
    """
    dtype = scalar_dtype(tree)
    leaves = [leaf for leaf in jax.tree.leaves(tree) if leaf.size]
    ends = [end.astype(dtype) for x in leaves for end in (jnp.min(x), jnp.max(x))]
    return jnp.isfinite(jnp.stack(ends) ** 2).all()
