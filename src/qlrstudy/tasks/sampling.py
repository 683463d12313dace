"""Two ways to cut data into batches: shuffled examples, and windows of a text."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from qlrstudy.spec import Batch, BatchShape, Split


class Examples:
    """Epochs of shuffled examples.

    The last batch of an epoch is filled up with rows of weight zero, so that all steps
    have one shape and its mean is still over the examples it has.
    """

    def steps(self, count: int, shape: BatchShape) -> int:
        """See `Sampling`: the last, partial batch is a step too."""
        return -(-count // min(shape.size, count))

    def epoch(
        self, key: PRNGKeyArray, count: int, shape: BatchShape
    ) -> tuple[Int[Array, "steps batch"], Float[Array, "steps batch"]]:
        """See `Sampling`."""
        if count <= shape.size:  # the order within one batch of all is no matter
            return self.sweep(count, shape)
        return self._cut(jax.random.permutation(key, count), shape)

    def sweep(
        self, count: int, shape: BatchShape
    ) -> tuple[Int[Array, "steps batch"], Float[Array, "steps batch"]]:
        """See `Sampling`."""
        return self._cut(jnp.arange(count), shape)

    def gather(
        self,
        split: Split,
        indices: Int[Array, " batch"],
        weights: Float[Array, " batch"],
        shape: BatchShape,
    ) -> Batch:
        """See `Sampling`."""
        del shape
        return Batch(split.inputs[indices], split.targets[indices], weights)

    def _cut(
        self, order: Int[Array, " count"], shape: BatchShape
    ) -> tuple[Int[Array, "steps batch"], Float[Array, "steps batch"]]:
        # A batch larger than the data is the data: no work is spent on filling.
        size = min(shape.size, len(order))
        fill = -len(order) % size
        weights = jnp.pad(jnp.ones(len(order), jnp.float32), (0, fill))
        return (
            jnp.pad(order, (0, fill)).reshape(-1, size),
            weights.reshape(-1, size),
        )


class Windows:
    """Windows of a text from random starts; an epoch sees about as many tokens as is.

    The weights are one for each token, so that a sweep can count every token once
    though its last window overlaps the one before.
    """

    def steps(self, count: int, shape: BatchShape) -> int:
        """See `Sampling`: 442 for Penn Treebank in batches of 30 x 70, as published."""
        return max(1, count // (shape.size * self._length(shape)))

    def epoch(
        self, key: PRNGKeyArray, count: int, shape: BatchShape
    ) -> tuple[Int[Array, "steps batch"], Float[Array, "steps batch length"]]:
        """See `Sampling`."""
        length = self._length(shape)
        plan = (self.steps(count, shape), shape.size)
        starts = jax.random.randint(key, plan, 0, count - length + 1)
        return starts, jnp.ones((*plan, length), jnp.float32)

    def sweep(
        self, count: int, shape: BatchShape
    ) -> tuple[Int[Array, "steps batch"], Float[Array, "steps batch length"]]:
        """See `Sampling`."""
        length = self._length(shape)
        windows = -(-count // length)
        begins = jnp.arange(windows) * length
        starts = jnp.minimum(begins, count - length)
        fresh = starts[:, None] + jnp.arange(length) >= begins[:, None]
        fill = -windows % shape.size
        return (
            jnp.pad(starts, (0, fill)).reshape(-1, shape.size),
            jnp.pad(fresh.astype(jnp.float32), ((0, fill), (0, 0))).reshape(
                -1, shape.size, length
            ),
        )

    def gather(
        self,
        split: Split,
        indices: Int[Array, " batch"],
        weights: Float[Array, "batch length"],
        shape: BatchShape,
    ) -> Batch:
        """See `Sampling`."""
        places = indices[:, None] + jnp.arange(self._length(shape))
        return Batch(split.inputs[places], split.targets[places], weights)

    def _length(self, shape: BatchShape) -> int:
        if shape.length is None:
            raise ValueError(f"text needs a sequence length beside batch {shape.size}")
        return shape.length
