"""Errors that outliers do not rule: the absolute error and Huber's."""

import dataclasses
import math
from typing import Any

from torch import Tensor

from adamqlr.measurements import Scale
from adamqlr.settings import check_range
from adamqlr.torch.likelihoods import (
    Average,
    IndependentOutputs,
    at_least_float32,
    nats_of,
)

# Fisher information of the density that falls as exp(-r²/2) up to an error of one and
# as exp(1/2 - |r|) beyond: how much of it lies below one (Huber 1964, section 6).
_BELOW, _BEYOND = math.sqrt(2 * math.pi) * math.erf(0.5**0.5), 2 * math.exp(-0.5)
HUBER_INFORMATION = _BELOW / (_BELOW + _BEYOND)


@dataclasses.dataclass(frozen=True)
class Laplace(IndependentOutputs):
    r"""Real targets with heavy tails: the absolute error, summed over outputs.

    The loss bends nowhere, so that its Gauss-Newton matrix is zero; the curvature is
    the Fisher information of the Laplace distribution, and that depends on how wide it
    is. Give the size of errors to be expected, in the targets' units.

    Args:
        deviation: $b$, the distribution's mean absolute error; 1 suits targets of unit
            variance.
        example_axes: see `IndependentOutputs`.
    """

    deviation: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("deviation", self.deviation, 0, open_low=True)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        r"""$|z - y|$: $b$ times the negative log-likelihood."""
        median, targets = self.matched(outputs, targets)
        return self.summed(abs(median - targets))

    def fisher(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        r"""$t^2 / b$: $b$ times the Fisher information."""
        lengths = at_least_float32("Laplace", tangent).square()
        return self.summed(lengths) / self.deviation

    def scale(self, loss: Tensor, targets: Any, average: Average) -> Scale:
        """A nat is `deviation` of this loss, or the mean error while that is larger."""
        scale = nats_of(self.deviation, loss)
        return scale._replace(error=loss / self.width(targets[0]))

    def least(self, targets: Any, average: Average) -> float:
        """See `Likelihood`."""
        return 0.0


@dataclasses.dataclass(frozen=True)
class Huber(IndependentOutputs):
    r"""Real targets with outliers: Huber's error, summed over outputs.

    It is half the square up to `delta`, a line beyond. The curvature is the Fisher
    information of the distribution that has this loss and errors of that size: 0.585
    of a squared error's, where Gauss-Newton would have all of it or none, and none at
    all while every error is large.

    Args:
        delta: $\delta$, up to where an error is no outlier, in the targets' units.
        example_axes: see `IndependentOutputs`.
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("delta", self.delta, 0, open_low=True)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        r"""$\tfrac12 r^2$ up to $\delta$, $\delta (|r| - \tfrac12 \delta)$ beyond."""
        centre, targets = self.matched(outputs, targets)
        errors = abs(centre - targets)
        inner = errors.clamp(max=self.delta)
        return self.summed(inner * (errors - inner / 2))

    def fisher(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        r"""$0.585\, t^2$: $\delta^2$ times the Fisher information."""
        lengths = at_least_float32("Huber", tangent).square()
        return HUBER_INFORMATION * self.summed(lengths)

    def scale(self, loss: Tensor, targets: Any, average: Average) -> Scale:
        r"""A nat is $\delta^2$ of this loss, or the mean error while that is larger."""
        scale = nats_of(self.delta**2, loss)
        return scale._replace(error=loss / self.width(targets[0]))

    def least(self, targets: Any, average: Average) -> float:
        """See `Likelihood`."""
        return 0.0
