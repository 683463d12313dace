"""The networks that the step costs are measured on, in flax."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class MLP(nn.Module):
    """Three hidden layers; the first layer's input needs no gradient."""

    width: int = 1024
    classes: int = 10

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = x.reshape(len(x), -1)
        for _ in range(3):
            x = nn.relu(nn.Dense(self.width)(x))
        return nn.Dense(self.classes)(x)


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions around an identity or a 1x1 projection."""

    features: int
    stride: int = 1

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        norm = lambda y: nn.BatchNorm(use_running_average=False)(y)
        strides = (self.stride, self.stride)
        y = nn.Conv(self.features, (3, 3), strides, use_bias=False)(x)
        y = nn.relu(norm(y))
        y = norm(nn.Conv(self.features, (3, 3), use_bias=False)(y))
        if x.shape != y.shape:
            x = norm(nn.Conv(self.features, (1, 1), strides, use_bias=False)(x))
        return nn.relu(x + y)


class ResNet18(nn.Module):
    """He et al. 2016, with the ImageNet stem, in training mode."""

    classes: int = 10

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(64, (7, 7), (2, 2), use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=False)(x))
        x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        for features, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
            x = ResidualBlock(features, stride)(x)
            x = ResidualBlock(features)(x)
        return nn.Dense(self.classes)(x.mean((1, 2)))


class GPT(nn.Module):
    """A decoder with pre-norm blocks and learnt positions."""

    vocabulary: int = 256
    width: int = 256
    depth: int = 6
    heads: int = 4

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        length = tokens.shape[1]
        embed = nn.Embed(self.vocabulary, self.width)
        positions = self.param(
            "positions", nn.initializers.normal(0.02), (length, self.width)
        )
        x = embed(tokens) + positions
        mask = nn.make_causal_mask(tokens)
        for _ in range(self.depth):
            x += nn.SelfAttention(self.heads)(nn.LayerNorm()(x), mask)
            y = nn.Dense(4 * self.width)(nn.LayerNorm()(x))
            x += nn.Dense(self.width)(nn.gelu(y))
        return nn.Dense(self.vocabulary, use_bias=False)(nn.LayerNorm()(x))


def problems() -> dict[str, tuple[nn.Module, jax.Array, jax.Array]]:
    """Each network with a batch of inputs and labels of its size."""
    key = jax.random.key(0)
    small = jax.random.normal(key, (32, 32, 32, 3))
    large = jax.random.normal(key, (8, 128, 128, 3))
    flat = jax.random.normal(key, (512, 784))
    text = jax.random.randint(key, (8, 129), 0, 256)
    return {
        "MLP 784-3x1024-10, batch 512": (MLP(), flat, jnp.arange(512) % 10),
        "ResNet-18 128x128, batch 8": (ResNet18(), large, jnp.arange(8)),
        "ResNet-18 32x32, batch 32": (ResNet18(), small, jnp.arange(32) % 10),
        "GPT 6x256, batch 8x128": (GPT(), text[:, :-1], text[:, 1:]),
    }
