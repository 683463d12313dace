"""The transformer of Penn Treebank (Radford et al. 2019), from flax's layers."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from qlrstudy.models.init import truncated_fan_in, truncated_width


class GPT2(nn.Module):
    """A decoder with pre-norm blocks, learnt positions and tied embeddings.

    No dropout: the paper's runs evaluate the network without it in training too.

    Attributes:
        vocabulary: number of tokens.
        width: of the residual stream.
        depth: number of blocks.
        heads: of attention in each.
        context: longest sequence.
    """

    vocabulary: int = 10_000
    width: int = 768
    depth: int = 12
    heads: int = 12
    context: int = 1024

    @nn.compact
    def __call__(
        self, tokens: Int[Array, "batch length"]
    ) -> Float[Array, "batch length vocabulary"]:
        """Logits of each next token."""
        embed = nn.Embed(self.vocabulary, self.width, embedding_init=truncated_width)
        place = nn.Embed(self.context, self.width, embedding_init=truncated_width)
        x = embed(tokens) + place(jnp.arange(tokens.shape[1]))
        mask = nn.make_causal_mask(tokens)
        for _ in range(self.depth):
            x = x + self._attend(_norm(x), mask)
            hidden = nn.gelu(_dense(4 * self.width)(_norm(x)))
            x = x + _dense(self.width)(hidden)
        return embed.attend(_norm(x))

    def _attend(
        self, x: Float[Array, "batch length width"], mask: Array
    ) -> Float[Array, "batch length width"]:
        # One dense layer makes queries, keys and values, as in GPT-2 itself; flax's
        # attention layer has one tensor of three axes for each, which kfac-jax does
        # not know as a dense layer.
        heads = (*x.shape[:-1], self.heads, self.width // self.heads)
        query, key, value = (
            part.reshape(heads)
            for part in jnp.split(_dense(3 * self.width)(x), 3, axis=-1)
        )
        mixed = nn.dot_product_attention(query, key, value, mask=mask)
        return _dense(self.width)(mixed.reshape(x.shape))


def _dense(features: int) -> nn.Dense:
    return nn.Dense(features, kernel_init=truncated_fan_in)


def _norm(x: Array) -> Array:
    return nn.LayerNorm(epsilon=1e-5)(x)
