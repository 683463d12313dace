"""The network of the tables and of Fashion-MNIST."""

import flax.linen as nn
from jaxtyping import Array, Float

from qlrstudy.models.init import truncated_fan_in


class MLP(nn.Module):
    """Layers of ReLU units.

    Attributes:
        widths: of the hidden layers.
        outputs: linear ones.
    """

    widths: tuple[int, ...]
    outputs: int

    @nn.compact
    def __call__(
        self, x: Float[Array, "batch features"]
    ) -> Float[Array, "batch outputs"]:
        """Outputs of a batch."""
        for width in self.widths:
            x = nn.relu(nn.Dense(width, kernel_init=truncated_fan_in)(x))
        return nn.Dense(self.outputs, kernel_init=truncated_fan_in)(x)
