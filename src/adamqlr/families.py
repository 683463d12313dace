"""The families of distributions with their settings, documented once. No framework.

A front end extends each by what it computes: `adamqlr.jax.Categorical` and
`adamqlr.torch.Categorical` have the settings of `Categorical` here.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NoReturn

from adamqlr.settings import check_range

# A sequence of numbers, or an array of whatever framework.
Weights = Any

# Fisher information of the density that falls as exp(-r²/2) up to an error of one and
# as exp(1/2 - |r|) beyond: how much of it lies below one (Huber 1964, section 6).
_BELOW, _BEYOND = math.sqrt(2 * math.pi) * math.erf(0.5**0.5), 2 * math.exp(-0.5)
HUBER_INFORMATION = _BELOW / (_BELOW + _BEYOND)


@dataclasses.dataclass(frozen=True, eq=False)  # the class weights may be an array
class Categorical:
    r"""Classes from logits on the last axis: softmax cross-entropy.

    Targets are integers, or floats in the logits' shape for probabilities (one-hot or
    soft). All axes but that of the classes are examples, so sequences of tokens are a
    batch like any. The Fisher information is the loss's Gauss-Newton matrix: the one of
    the logits times the weight that the example's targets have.

    Args:
        label_smoothing: $\epsilon$ in [0, 1]; mixes the targets with the uniform
            distribution, $(1 - \epsilon) y + \epsilon / K$ for $K$ classes.
        class_weights: one for each class, which multiplies its term of the loss. Of
            integer targets the mean is weighted by them, so that it is divided by the
            weights of all labels; of probabilities, as `torch.nn` has it, it is divided
            by the number of examples.
        ignore_index: integer target of examples to leave out, padding say.
    """

    label_smoothing: float = 0.0
    class_weights: Weights | None = None
    ignore_index: int | None = None

    def __post_init__(self) -> None:
        check_range("label_smoothing", self.label_smoothing, 0, 1)

    def chance_among(self, classes: int) -> float | None:
        """Nats that guessing among so many classes costs, if all count the same."""
        known = classes > 1 and self.class_weights is None
        return math.log(classes) if known else None

    def refuse_numbers(
        self, dtype: Any, found: Sequence[int], logits: Sequence[int]
    ) -> NoReturn:
        """Refuse targets that are no integers and not one for each class."""
        raise TypeError(
            f"Categorical targets of type {dtype} must have the logits' shape "
            f"{tuple(logits)}, got {tuple(found)}: pass integers for class numbers, or "
            "one probability for each class"
        )


@dataclasses.dataclass(frozen=True)
class IndependentOutputs:
    """Outputs that are independent of each other: an example's loss is their sum.

    Args:
        example_axes: how many leading axes number examples. All other axes hold the
            outputs of one example: by default an image is one example, and so is a
            sequence. With 2 each step of a sequence is an example of its own, which
            may then have a weight of its own.
    """

    example_axes: int = dataclasses.field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        check_range("example_axes", self.example_axes, 1)

    def outputs_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The axes that hold the outputs of one example."""
        if len(shape) < self.example_axes:
            raise ValueError(
                f"{type(self).__name__} with example_axes={self.example_axes} needs "
                f"outputs with so many axes at least, got shape {tuple(shape)}"
            )
        return tuple(range(self.example_axes, len(shape)))

    def width_of(self, shape: Sequence[int]) -> int:
        """How many outputs an example has."""
        return math.prod(shape[self.example_axes :])


class _NoLossBelowZero(IndependentOutputs):
    """The best of all outputs have none at all."""

    def least(self, targets: Any, average: Any) -> float:
        """See `Likelihood`."""
        del targets, average
        return 0.0


@dataclasses.dataclass(frozen=True)
class Gaussian(_NoLossBelowZero):
    r"""Real targets with one variance: half the squared error, summed over outputs.

    Loss and curvature are those of unit variance; a divergence in nats is counted with
    the variance that the targets have, so that their units do not matter. The Fisher
    information is the loss's Gauss-Newton matrix.

    Args:
        example_axes: see `IndependentOutputs`.
    """


@dataclasses.dataclass(frozen=True)
class HeteroscedasticGaussian(IndependentOutputs):
    r"""Real targets whose mean and variance the network both predicts.

    Outputs are a pair `(mean, variance)`, the mean in the targets' shape. The variance
    has that shape too, or one on the last axis, or no last axis, where it is the same
    for all outputs there. Let the network end in a softplus or an exponential for it.
    The curvature is the Fisher information.

    Args:
        eps: variances below count as this; their gradient stays.
        full: add the constant $\tfrac12 \log 2\pi$ for each output.
        example_axes: see `IndependentOutputs`.
    """

    eps: float = 1e-6
    full: bool = False

    @property
    def constant(self) -> float:
        """Twice what `full` adds for each output."""
        return math.log(2 * math.pi) if self.full else 0.0

    def two_of(self, given: Any) -> tuple[Any, Any]:
        """What belongs to the mean and what to the variance."""
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise TypeError(
                f"{type(self).__name__} needs outputs (mean, variance), "
                f"got {type(given).__name__}"
            )
        return given[0], given[1]

    def check_variance(self, found: Sequence[int], mean: Sequence[int]) -> None:
        """Refuse a variance that is not for each output, or for all on an axis."""
        if tuple(found) not in (tuple(mean), (*mean[:-1], 1)):
            raise ValueError(
                f"{type(self).__name__} variance must have the shape of the mean "
                f"{tuple(mean)}, or one on its last axis, got {tuple(found)}"
            )


@dataclasses.dataclass(frozen=True, eq=False)  # the weights may be arrays
class Bernoulli(_NoLossBelowZero):
    r"""Yes or no from one logit each: binary cross-entropy, summed over outputs.

    The Fisher information is the loss's Gauss-Newton matrix: with `pos_weight`, that of
    each logit times the weight of its target.

    Args:
        pos_weight: what a positive target counts, for each output of an example or for
            all of them.
        output_weights: what each output of an example counts.
        example_axes: see `IndependentOutputs`.
    """

    pos_weight: Weights | None = None
    output_weights: Weights | None = None

    def chance_of(self, shape: Sequence[int]) -> float | None:
        """Nats that guessing all outputs of an example costs, if these count one."""
        plain = self.pos_weight is None and self.output_weights is None
        return math.log(2) * self.width_of(shape) if plain else None


@dataclasses.dataclass(frozen=True)
class Poisson(IndependentOutputs):
    r"""Counts from log rates or rates, summed over outputs.

    The curvature is the Fisher information; for log rates it is the loss's Gauss-Newton
    matrix too.

    Args:
        log_rate: whether the outputs are the rates' logarithms; rates as they are must
            not be negative.
        full: add Stirling's approximation of $\log y!$ for counts above one.
        eps: added to a rate before its logarithm is taken.
        example_axes: see `IndependentOutputs`.
    """

    log_rate: bool = True
    full: bool = False
    eps: float = 1e-8


@dataclasses.dataclass(frozen=True)
class Laplace(_NoLossBelowZero):
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


@dataclasses.dataclass(frozen=True)
class Huber(_NoLossBelowZero):
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
