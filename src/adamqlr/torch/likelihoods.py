r"""What a network's outputs say about its targets, and how sharply.

A likelihood answers two questions of each example: its negative log-likelihood, and
the square length $t^\top F t$ of a change $t$ of the outputs in the Fisher metric.
Averaging over examples is `Objective`'s alone, so that loss, gradient and curvature
cannot be normalised apart.

One of your own is a subclass of `Likelihood` with these two methods; nothing needs to
be registered.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional

from adamqlr.step import Scale

# No class number: what to leave out of a mean is for weights to say.
_NONE = torch.iinfo(torch.int64).min

# Mean over the whole batch of a number for each example, given by micro-batches.
Average = Callable[[list[Tensor]], Tensor]


@runtime_checkable
class Likelihood(Protocol):
    """A family of distributions over targets, given a network's outputs."""

    def loss(self, outputs: Any, targets: Any) -> Tensor:
        """Negative log-likelihood of each example, up to a constant."""
        ...

    def fisher(self, outputs: Any, tangent: Any) -> Tensor:
        """Fisher length squared of a change of the outputs, for each example."""
        ...

    def scale(self, loss: Tensor, targets: list[Any], average: Average) -> Scale | None:
        """What a batch says about the targets' scale, where the likelihood does not.

        Args:
            loss: mean over the batch.
            targets: of each micro-batch.
            average: mean over the batch of a number for each example.

        Returns:
            `None`, if the loss is in nats by itself.
        """
        del loss, targets, average
        return None

    def least(self, targets: list[Any], average: Average) -> float | Tensor | None:
        """The mean loss that the best of all outputs would have, or a bound below it.

        Args:
            targets: of each micro-batch.
            average: mean over the batch of a number for each example.

        Returns:
            `None`, if it is not known.
        """
        del targets, average
        return None


class Categorical(Likelihood):
    r"""Classes from logits on the last axis: softmax cross-entropy.

    Targets are integers, or probabilities (one-hot or soft) with the logits' shape.
    All axes but the last are examples, so sequences of tokens are a batch like any.
    `torch.nn.CrossEntropyLoss` has its classes on the second axis instead.
    """

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        r"""$-\log \mathrm{softmax}(z)_y$."""
        logits = at_least_float32(outputs)
        if targets.shape == logits.shape:
            return -(targets * functional.log_softmax(logits, -1)).sum(-1)
        _same_shape("Categorical", logits.shape[:-1], targets.shape)
        if targets.is_floating_point():
            raise TypeError(
                f"Categorical targets of type {targets.dtype} must have the logits' "
                f"shape {tuple(logits.shape)}, got {tuple(targets.shape)}: pass "
                "integers for class numbers, or one probability for each class"
            )
        flat = logits.reshape(-1, logits.shape[-1]), targets.reshape(-1).long()
        losses = functional.cross_entropy(*flat, reduction="none", ignore_index=_NONE)
        return losses.reshape(targets.shape)

    def fisher(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        r"""Variance of the tangent, $\sum_k p_k (t_k - p \cdot t)^2$.

        Equal to $p \cdot t^2 - (p \cdot t)^2$, without its cancellation.
        """
        logits, tangent = at_least_float32(outputs), at_least_float32(tangent)
        p = functional.softmax(logits, -1)
        mean = (p * tangent).sum(-1, keepdim=True)
        return (p * (tangent - mean).square()).sum(-1)

    def least(self, targets: list[Tensor], average: Average) -> float:
        """See `Likelihood`."""
        return 0.0


class Gaussian(Likelihood):
    r"""Real targets with one variance: half the squared error.

    Loss and curvature are those of unit variance; a divergence in nats is counted with
    the variance that the targets have, so that their units do not matter.

    The last axis holds one example's outputs and is summed; with a single axis, each
    output is an example of its own.
    """

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        r"""$\tfrac12 |z - y|^2$."""
        mean, targets = _matched("Gaussian", outputs, targets)
        return _sum_outputs((mean - targets).square()) / 2

    def fisher(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        r"""$|t|^2$."""
        return _sum_outputs(at_least_float32(tangent).square())

    def scale(self, loss: Tensor, targets: list[Tensor], average: Average) -> Scale:
        """See `Likelihood`."""
        targets, outputs = [at_least_float32(y) for y in targets], count(targets[0])
        mean = average([_sum_outputs(y) for y in targets]) / outputs
        squares = [_sum_outputs((y - mean).square()) for y in targets]
        return Scale(mean, average(squares) / outputs, 2 * loss / outputs)

    def least(self, targets: list[Tensor], average: Average) -> float:
        """See `Likelihood`."""
        return 0.0


class Bernoulli(Likelihood):
    """Yes or no from one logit each: binary cross-entropy, summed on the last axis."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        r"""$\log(1 + e^z) - y z$."""
        logits, targets = _matched("Bernoulli", outputs, targets)
        losses = functional.binary_cross_entropy_with_logits(
            logits, targets.to(logits.dtype), reduction="none"
        )
        return _sum_outputs(losses)

    def fisher(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        r"""$p(1 - p)\, t^2$, with $1 - p$ taken as $\sigma(-z)$ to keep its digits."""
        logits, tangent = at_least_float32(outputs), at_least_float32(tangent)
        variance = torch.sigmoid(logits) * torch.sigmoid(-logits)
        return _sum_outputs(variance * tangent.square())

    def least(self, targets: list[Tensor], average: Average) -> float:
        """See `Likelihood`."""
        return 0.0


class Poisson(Likelihood):
    """Counts from log rates, summed on the last axis; without the constant log y!."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        r"""$e^z - y z$."""
        log_rate, targets = _matched("Poisson", outputs, targets)
        return _sum_outputs(log_rate.exp() - targets * log_rate)

    def fisher(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        r"""$e^z t^2$."""
        log_rate, tangent = at_least_float32(outputs), at_least_float32(tangent)
        return _sum_outputs(log_rate.exp() * tangent.square())

    def least(self, targets: list[Tensor], average: Average) -> Tensor:
        r"""$y - y \log y$, where the rate is the count."""
        counts = [at_least_float32(y) for y in targets]
        return average([_sum_outputs(y - torch.xlogy(y, y)) for y in counts])


def at_least_float32(x: Tensor) -> Tensor:
    """Half-precision outputs are averaged in float32; wider ones stay as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def count(outputs: Tensor) -> int:
    """How many outputs an example has: the last axis, where there are two."""
    return outputs.shape[-1] if outputs.ndim > 1 else 1


def _matched(name: str, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    _same_shape(name, outputs.shape, targets.shape)
    return at_least_float32(outputs), targets


def _same_shape(name: str, expected: torch.Size, targets: torch.Size) -> None:
    # Broadcasting (n, 1) against (n,) would quietly compare every pair of examples.
    if expected != targets:
        raise ValueError(
            f"{name} targets must have shape {tuple(expected)} to match the outputs, "
            f"got {tuple(targets)}"
        )


def _sum_outputs(x: Tensor) -> Tensor:
    return x if x.ndim <= 1 else x.sum(-1)
