"""A convolution, rearranged on a CPU where XLA is slow: small maps, large batches.

ResNet-18 ends with kernels of 3x3 that make maps of 2x2 and of 1x1. There XLA's
convolution takes most of the network's time, though one product of matrices is all
there is to do. And the first kernels, loss and gradient, cost up to two and a half
times as much by the example at a batch of 3,200 as at 128, which
`benchmarks/convolutions.py` shows.
"""

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from qlrstudy.models.init import truncated_fan_in

# Height and width of the convolved maps for which products are faster.
LARGEST_MAP = 2
# Examples whose part of a kernel's gradient is taken at once.
PART = 128


class Conv(nn.Module):
    """A convolution without bias, padded to keep its map, up to the stride.

    Attributes:
        features: channels of its outputs.
        size: height and width of the kernel.
        stride: likewise.
        direct: whether it has to be one convolution, as K-FAC looks for; or else what
            is faster on a CPU. The numbers are the same to rounding.
    """

    features: int
    size: int
    stride: int
    direct: bool = False

    @nn.compact
    def __call__(
        self, x: Float[Array, "batch height width channels"]
    ) -> Float[Array, "batch rows columns features"]:
        """The convolved maps of a batch."""
        shape = (self.size, self.size, x.shape[-1], self.features)
        kernel = self.param("kernel", truncated_fan_in, shape)
        if self.direct or jax.default_backend() != "cpu":
            return by_convolution(x, kernel, self.stride)
        if self.size > 1 and max(x.shape[1:3]) <= LARGEST_MAP * self.stride:
            return by_matrix(x, kernel, self.stride)
        return by_parts(x, kernel, self.stride)


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


def by_matrix(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "size size channels features"],
    stride: int,
) -> Float[Array, "batch rows columns features"]:
    """The same as one product: of whole maps with the matrix that maps them."""
    batch, height, width, channels = x.shape
    size, _, _, features = kernel.shape
    down, across = _meetings(height, size, stride), _meetings(width, size, stride)
    matrix = jnp.einsum("hri,wsj,ijcf->hwcrsf", down, across, kernel)
    y = x.reshape(batch, -1) @ matrix.reshape(height * width * channels, -1)
    return y.reshape(batch, down.shape[1], across.shape[1], features)


def _meetings(
    length: int, size: int, stride: int
) -> Float[np.ndarray, "length outputs size"]:
    """Along an axis, 1 where an output meets an input with this element of the kernel.

    By XLA's `SAME`: the padding is halved, and an odd one is more at the end.
    """
    outputs = -(-length // stride)
    before = max((outputs - 1) * stride + size - length, 0) // 2
    met = np.arange(length)[:, None] + before - stride * np.arange(outputs)
    return (met[..., None] == np.arange(size)).astype(np.float32)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def by_parts(
    x: Float[Array, "batch height width channels"],
    kernel: Float[Array, "size size channels features"],
    stride: int,
) -> Float[Array, "batch rows columns features"]:
    """The same, with the gradient of its kernel a sum over parts of the batch."""
    return by_convolution(x, kernel, stride)


@partial(by_parts.defjvp, symbolic_zeros=True)
def _by_parts_jvp(stride: int, primals: Any, tangents: Any) -> tuple[Array, Any]:
    # What is linear in the kernel here is transposed for the kernel's gradient.
    (x, kernel), (dx, dkernel) = primals, tangents
    y = by_convolution(x, kernel, stride)
    moved = []
    if not isinstance(dx, SymbolicZero):
        moved.append(by_convolution(dx, kernel, stride))
    if not isinstance(dkernel, SymbolicZero):
        parts = [x[i : i + PART] for i in range(0, len(x), PART)]
        convolved = [by_convolution(part, dkernel, stride) for part in parts]
        moved.append(jnp.concatenate(convolved))
    return y, sum(moved[1:], moved[0]) if moved else jnp.zeros_like(y)
