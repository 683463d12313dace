"""A convolution, on small maps as a matrix product: XLA is slow with those on a CPU.

ResNet-18 ends with kernels of 3x3 that make maps of 2x2 and of 1x1. There XLA's
convolution takes most of the network's time (`benchmarks/small_maps.py`), though a
product over patches is all there is to do.
"""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from qlrstudy.models.init import truncated_fan_in

# Height and width of the convolved maps for which products are faster.
LARGEST_MAP = 2


class Conv(nn.Module):
    """A convolution without bias, padded to keep its map, up to the stride.

    Attributes:
        features: channels of its outputs.
        size: height and width of the kernel.
        stride: likewise.
        products: whether small maps may be a matrix product, where that is faster.
            The numbers are the same to rounding; K-FAC, which looks for convolutions,
            does not find them then.
    """

    features: int
    size: int
    stride: int
    products: bool = True

    @nn.compact
    def __call__(
        self, x: Float[Array, "batch height width channels"]
    ) -> Float[Array, "batch rows columns features"]:
        """The convolved maps of a batch."""
        shape = (self.size, self.size, x.shape[-1], self.features)
        kernel = self.param("kernel", truncated_fan_in, shape)
        small = self.size > 1 and max(x.shape[1:3]) <= LARGEST_MAP * self.stride
        if self.products and small and jax.default_backend() == "cpu":
            return by_product(x, kernel, self.stride)
        return by_convolution(x, kernel, self.stride)


def by_convolution(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "size size channels features"],
    stride: int,
) -> Float[Array, "batch rows columns features"]:
    """As XLA has it."""
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


class _Axis(NamedTuple):
    """One axis of a padded map: what of the kernel it meets, and the padding for that.

    Attributes:
        taps: rows of the kernel that meet the map anywhere.
        padding: before and after the map, as far as those rows reach.
        outputs: how many there are.
    """

    taps: range
    padding: tuple[int, int]
    outputs: int

    @classmethod
    def of(cls, length: int, size: int, stride: int) -> "_Axis":
        """By XLA's `SAME`: the padding is halved, and an odd one is more at the end."""
        outputs = -(-length // stride)
        before = max((outputs - 1) * stride + size - length, 0) // 2
        starts = [output * stride - before for output in range(outputs)]
        met = [t for t in range(size) if any(0 <= s + t < length for s in starts)]
        taps = range(met[0], met[-1] + 1)
        front = before - taps.start
        back = max(starts[-1] + taps.stop - length, 0)
        return cls(taps, (max(front, 0), back), outputs)


def by_product(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "size size channels features"],
    stride: int,
) -> Float[Array, "batch rows columns features"]:
    """The same as patches times the kernel, without its rows that meet only padding."""
    axes = [_Axis.of(length, len(kernel), stride) for length in x.shape[1:3]]
    padded = jnp.pad(x, ((0, 0), *[axis.padding for axis in axes], (0, 0)))
    rows, columns = (axis.taps for axis in axes)
    height, width = ((axis.outputs - 1) * stride + 1 for axis in axes)
    patches = [
        padded[:, i : i + height : stride, j : j + width : stride]
        for i in range(len(rows))
        for j in range(len(columns))
    ]
    met = kernel[rows.start : rows.stop, columns.start : columns.stop]
    matrix = met.reshape(-1, kernel.shape[-1])
    return jnp.concatenate(patches, axis=-1) @ matrix
