"""The method's scalars in JAX: how to select one, their type, inner products."""

import jax
import jax.numpy as jnp
import optax
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from adamqlr import rules

rules.where.register(jax.Array, jnp.where)
rules.where.register(Tracer, jnp.where)


def scalar_dtype(tree: PyTree) -> jnp.dtype:
    """The type of the method's scalars: as wide as the parameters, float32 at least."""
    return jnp.result_type(jnp.float32, *jax.tree.leaves(tree))


def inner_product(a: PyTree, b: PyTree) -> Float[Array, ""]:
    """Sum of products over two trees, in `scalar_dtype` also for bfloat16 leaves."""
    dtype = scalar_dtype((a, b))
    return jnp.asarray(
        optax.tree.vdot(optax.tree.cast(a, dtype), optax.tree.cast(b, dtype)), dtype
    )
