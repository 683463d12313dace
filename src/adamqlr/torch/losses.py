"""The losses of `torch.nn`, read as likelihoods.

They average over the outputs of an example too, where a likelihood sums, and their
value is what `step` returns: a squared error without its half stays one. Steps are
those of the likelihood itself.
"""

from typing import Any

import torch
from torch import Tensor, nn

from adamqlr.torch.likelihoods import (
    Average,
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    Poisson,
    Scale,
    count,
)


class OutputMean(Likelihood):
    """Another likelihood, averaged over an example's outputs instead of summed.

    Args:
        likelihood: one that sums over the last axis.
        factor: multiplies loss and Fisher information.
    """

    def __init__(self, likelihood: Likelihood, factor: float = 1.0):
        self.likelihood, self.factor = likelihood, factor

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """See `Likelihood`."""
        return self.likelihood.loss(outputs, targets) * self._share(outputs)

    def fisher(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        """See `Likelihood`."""
        return self.likelihood.fisher(outputs, tangent) * self._share(outputs)

    def scale(self, loss: Tensor, targets: list[Tensor], average: Average) -> Scale:
        """See `Likelihood`; a nat is so much less of this loss than of the sum."""
        share = self._share(targets[0])
        scale = self.likelihood.scale(loss / share, targets, average)
        if scale is None:
            zero = torch.zeros_like(loss)
            return Scale(zero, torch.full_like(loss, share), zero)
        mean, variance, error = scale
        return Scale(share**0.5 * mean, share * variance, share * error)

    def least(self, targets: list[Tensor], average: Average) -> float | Tensor | None:
        """See `Likelihood`."""
        least = self.likelihood.least(targets, average)
        return None if least is None else self._share(targets[0]) * least

    def _share(self, outputs: Tensor) -> float:
        return self.factor / count(outputs)


class ClassesSecond(Likelihood):
    """`Categorical` with the classes on the second axis, as `CrossEntropyLoss` has."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """See `Likelihood`."""
        if targets.shape == outputs.shape:
            targets = _classes_last(targets)
        return Categorical().loss(_classes_last(outputs), targets)

    def fisher(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        """See `Likelihood`."""
        return Categorical().fisher(_classes_last(outputs), _classes_last(tangent))

    def least(self, targets: list[Tensor], average: Average) -> float:
        """See `Likelihood`."""
        return Categorical().least(targets, average)


def _classes_last(x: Tensor) -> Tensor:
    return x.movedim(1, -1) if x.ndim > 2 else x


# The options a likelihood has room for; all others must be at these values.
_PLAIN = {
    nn.CrossEntropyLoss: {"weight": None, "reduction": "mean", "label_smoothing": 0.0},
    nn.MSELoss: {"reduction": "mean"},
    nn.BCEWithLogitsLoss: {"weight": None, "reduction": "mean", "pos_weight": None},
    nn.PoissonNLLLoss: {"log_input": True, "full": False, "reduction": "mean"},
}


def as_likelihood(given: Any) -> Likelihood:
    """A likelihood as it is, or the one that a loss of `torch.nn` stands for.

    Raises:
        ValueError: the loss has an option that no likelihood has.
        TypeError: it is neither, or a loss that is not known here.
    """
    if not isinstance(given, nn.Module):
        if not isinstance(given, Likelihood):
            raise TypeError(
                "likelihood must be a Likelihood, as Categorical() is, with methods "
                f"loss and fisher, or a loss of torch.nn, got {given!r}"
            )
        return given
    plain = _PLAIN.get(type(given))
    if plain is None:
        names = ", ".join(loss.__name__ for loss in _PLAIN)
        raise TypeError(
            f"{type(given).__name__} is not among the losses known here ({names}): "
            "pass a Likelihood, a class with methods loss and fisher"
        )
    for option, value in plain.items():
        found = getattr(given, option)
        if found is not value and found != value:
            raise ValueError(
                f"{type(given).__name__} with {option}={found!r} is not supported: "
                f"only {option}={value!r} is"
            )
    match given:
        case nn.CrossEntropyLoss():
            return ClassesSecond()
        case nn.MSELoss():
            return OutputMean(Gaussian(), factor=2.0)
        case nn.BCEWithLogitsLoss():
            return OutputMean(Bernoulli())
        case _:
            return OutputMean(Poisson())


def kept_examples(given: Any, targets: Any) -> Tensor | None:
    """Which examples `CrossEntropyLoss` does not ignore; `None` where it keeps all."""
    if not isinstance(given, nn.CrossEntropyLoss) or targets.is_floating_point():
        return None
    return (targets != given.ignore_index).to(torch.get_default_dtype())
