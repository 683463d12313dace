"""The protocol's initial weights."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


def truncated_fan_in(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any = jnp.float32
) -> Float[Array, "..."]:
    r"""Normal of deviation $1/\sqrt{\text{fan-in}}$, truncated at two deviations.

    The deviation is the one before truncation, which leaves 0.88 of it; flax's own
    `lecun_normal` makes up for that, the protocol does not.

    Args:
        key: random key.
        shape: of a kernel: the last axis is the outputs', all others are fan-in.
        dtype: of the weights.
    """
    return _truncated(key, shape, dtype) / math.sqrt(math.prod(shape[:-1]))


def truncated_width(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any = jnp.float32
) -> Float[Array, "..."]:
    """The same for embeddings, which as output layer have their width as fan-in."""
    return _truncated(key, shape, dtype) / math.sqrt(shape[-1])


def _truncated(key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any) -> Array:
    # Drawn flat: XLA takes seconds to compile random bits of four axes on a CPU (jax
    # 0.9), for each kernel of a convolutional net. The values are the same.
    flat = jax.random.truncated_normal(key, -2.0, 2.0, (math.prod(shape),), dtype)
    return flat.reshape(shape)
