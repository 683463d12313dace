"""From what was read to what is learnt: parts for validation, and normalisation."""

import numpy as np
from jaxtyping import Float, Int, Shaped

# One split for all runs: repetitions differ in their start and their batches, and
# methods are compared on the same examples.
_SEED = 0


class Standardiser:
    """Mean and deviation over all axes but the last; a zero deviation counts as 1.

    Args:
        values: of train and validation data together.
    """

    def __init__(self, values: Shaped[np.ndarray, "examples *axes"]) -> None:
        inner = tuple(range(values.ndim - 2))
        # Over the examples first, then over what is left: no copy of the whole in
        # float64, which for images would be eight times the data.
        self.mean: np.ndarray = values.mean(0, dtype=np.float64).mean(inner)
        squares = sum(
            np.square(part - self.mean).sum(0) for part in _parts(values)
        ) / len(values)
        deviation = np.sqrt(np.mean(squares, inner))
        self.deviation: np.ndarray = np.where(deviation == 0, 1, deviation)

    def __call__(
        self, values: Shaped[np.ndarray, "examples *axes"]
    ) -> Float[np.ndarray, "examples *axes"]:
        """Values with mean 0 and deviation 1, in float32."""
        scaled = np.empty(values.shape, np.float32)
        for source, target in zip(_parts(values), _parts(scaled), strict=True):
            target[...] = (source - self.mean) / self.deviation
        return scaled


def hold_out(
    count: int, fraction: float
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " validation"]]:
    """Choose at random which of `count` examples are for validation.

    Returns:
        The indices of the training and of the validation examples, each in order.
    """
    order = np.random.default_rng(_SEED).permutation(count)
    held = round(count * fraction)
    return np.sort(order[held:]), np.sort(order[:held])


def _parts(values: np.ndarray) -> list[np.ndarray]:
    return np.array_split(values, max(1, len(values) // 1000))
