"""The residual network of SVHN and CIFAR-10 (He et al. 2016)."""

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from qlrstudy.models.convolution import Conv
from qlrstudy.models.init import truncated_fan_in
from qlrstudy.models.pooling import max_pool


class ResNet(nn.Module):
    """ResNet-18 with the ImageNet stem: a 7x7 convolution and a pool, stride 2 each.

    Attributes:
        classes: outputs.
        width: channels of the first stage; each later one has twice as many.
        blocks: in each stage.
        direct: whether each convolution has to be one; see `Conv`.
    """

    classes: int = 10
    width: int = 64
    blocks: tuple[int, ...] = (2, 2, 2, 2)
    direct: bool = False

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "batch height width channels"],
        *,
        training: bool,
        mask: Bool[Array, " batch"] | None = None,
    ) -> Float[Array, "batch classes"]:
        """Logits of a batch.

        Args:
            x: images.
            training: normalise by the batch and move the running statistics, or else
                normalise by those.
            mask: examples that batch norm may see; all, without.
        """
        x = Conv(self.width, 7, 2, self.direct)(x)
        x = nn.relu(_norm(x, training, mask))
        x = max_pool(x)
        for stage, blocks in enumerate(self.blocks):
            for number in range(blocks):
                stride = 2 if stage > 0 and number == 0 else 1
                block = _Block(self.width * 2**stage, stride, self.direct)
                x = block(x, training, mask)
        return nn.Dense(self.classes, kernel_init=truncated_fan_in)(x.mean((1, 2)))


class _Block(nn.Module):
    """Two 3x3 convolutions around the identity, or a 1x1 projection of it."""

    features: int
    stride: int
    direct: bool

    @nn.compact
    def __call__(
        self, x: Array, training: bool, mask: Bool[Array, " batch"] | None
    ) -> Array:
        y = Conv(self.features, 3, self.stride, self.direct)(x)
        y = nn.relu(_norm(y, training, mask))
        y = Conv(self.features, 3, 1, self.direct)(y)
        y = _norm(y, training, mask)
        if x.shape != y.shape:
            x = Conv(self.features, 1, self.stride, self.direct)(x)
            x = _norm(x, training, mask)
        return nn.relu(x + y)


def _norm(x: Array, training: bool, mask: Bool[Array, " batch"] | None) -> Array:
    # Rows that fill up a batch must not enter its statistics, nor, being masked, can
    # they change anybody's loss.
    shown = None if mask is None else jnp.reshape(mask, (-1, 1, 1, 1))
    norm = nn.BatchNorm(use_running_average=not training, momentum=0.9)
    return norm(x, mask=shown)
