"""What a network's outputs say about its targets, and how sharply.

`adamqlr.likelihoods` says what a likelihood is, `adamqlr.families` which there are and
what they can be told; here is what each computes. One of your own is any class with
two methods, `loss` and `fisher`; nothing needs to be registered. `docs/losses.md` says
which likelihood to use.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from adamqlr import families, likelihoods
from adamqlr.likelihoods import check_broadcast, check_shape
from adamqlr.measurements import Scale

# No class number: what to leave out of a mean is for weights to say.
_NONE = torch.iinfo(torch.int64).min

# Mean over the whole batch of a number for each example, given by micro-batches.
Average = Callable[[list[Tensor]], Tensor]


class Likelihood(likelihoods.Likelihood[Tensor], Protocol):
    """A family of distributions over targets; see `adamqlr.likelihoods.Likelihood`."""

    def targets_from(self, outputs: Any, grad: Any) -> tuple[Any, Tensor | None]:
        """Read the targets of a loss from its gradient by the outputs.

        Args:
            outputs: of the model.
            grad: of any multiple of the loss, by them.

        Returns:
            The targets, and what each example counts, where that can be seen.

        Raises:
            ValueError: targets of this kind cannot be read.
        """
        raise ValueError(
            f"the targets of {type(self).__name__} cannot be read from gradients: have "
            "the loop call a loss of torch.nn, nn.MSELoss() say, and watch that very "
            "module; or give step() an Objective"
        )


class WithDefaults(likelihoods.WithDefaults[Tensor], Likelihood):
    """An object's own methods, and those of `Likelihood` where it has none."""


@dataclasses.dataclass(frozen=True, eq=False)  # the class weights may be a tensor
class Categorical(families.Categorical, Likelihood):
    """Classes from logits: softmax cross-entropy. See `adamqlr.families.Categorical`.

    Args:
        label_smoothing: see there.
        class_weights: see there.
        ignore_index: see there.
        class_axis: where the classes are, if there are more than two axes:
            `torch.nn.CrossEntropyLoss` has them on the second.
    """

    class_axis: int = -1

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        r"""$-\sum_k w_k y_k \log \mathrm{softmax}(z)_k$."""
        logits = self._classes_last(at_least_float32("Categorical", outputs))
        if _are_probabilities(targets):
            y = self._weighted(self._probabilities(targets, logits.shape).to(logits))
            return -(y * functional.log_softmax(logits, -1)).sum(-1)
        check_shape("Categorical targets", targets.shape, logits.shape[:-1])
        losses = functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            targets.reshape(-1).long(),
            self._class_weights(logits),
            reduction="none",
            ignore_index=_NONE if self.ignore_index is None else self.ignore_index,
            label_smoothing=self.label_smoothing,
        )
        return losses.reshape(targets.shape)

    def fisher(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        r"""Variance of the tangent, $\sum_k p_k (t_k - p \cdot t)^2$.

        Equal to $p \cdot t^2 - (p \cdot t)^2$, without its cancellation.
        """
        logits = self._classes_last(at_least_float32("Categorical", outputs))
        tangent = self._classes_last(at_least_float32("Categorical", tangent))
        p = functional.softmax(logits, -1)
        mean = (p * tangent).sum(-1, keepdim=True)
        return (p * (tangent - mean).square()).sum(-1)

    def weighted_fisher(
        self, outputs: Tensor, tangent: Tensor, targets: Tensor
    ) -> Tensor:
        r"""`fisher` times $\sum_k w_k y_k$, of the smoothed targets."""
        lengths = self.fisher(outputs, tangent)
        if _are_probabilities(targets):
            y = self._weighted(self._classes_last(targets).to(lengths))
            return y.sum(-1) * lengths
        counts = self.counts(targets)
        if counts is None:
            return lengths
        weights = counts.to(lengths.dtype)
        if self.class_weights is not None and self.label_smoothing:
            mean = torch.as_tensor(self.class_weights).to(lengths).mean()
            weights = weights + self.label_smoothing * (mean - weights)
            weights = self._kept(targets, weights)
        return weights * lengths

    def counts(self, targets: Tensor) -> Tensor | None:
        """The weight of each label; zero for those to ignore."""
        plain = self.class_weights is None and self.ignore_index is None
        if plain or _are_probabilities(targets):
            return None
        if self.class_weights is None:
            return self._kept(targets, torch.ones_like(targets, dtype=torch.float32))
        labels = self._kept(targets, targets).long()
        weights = torch.as_tensor(self.class_weights, device=targets.device)
        return self._kept(targets, weights[labels])

    def chance(self, outputs: Tensor) -> float | None:
        """See `Likelihood`."""
        return self.chance_among(self._classes_last(outputs).shape[-1])

    def least(self, targets: list[Tensor], average: Average) -> float | Tensor:
        """The entropy of targets that are probabilities, zero for others."""
        if not _are_probabilities(targets[0]):
            return 0.0
        entropies = []
        for given in targets:
            y = self._classes_last(at_least_float32("Categorical targets", given))
            y = self._weighted(y)
            total = y.sum(-1, keepdim=True)
            shares = y / torch.where(total == 0, 1, total)
            entropies.append(-torch.xlogy(y, shares).sum(-1))
        return average(entropies)

    def targets_from(self, outputs: Any, grad: Any) -> tuple[Any, Tensor | None]:
        r"""The one class whose logit the loss pulls up: $p - y$ is negative there.

        With smoothed labels others may be pulled up too: then it is the class for
        which the loss would have a gradient in this direction.
        """
        outputs, grad = self._classes_last(outputs), self._classes_last(grad)
        kept = (grad != 0).any(-1)
        if not self.label_smoothing:
            return grad.argmin(-1), kept
        if outputs.shape[-1] == 2:  # The gradients of both may have one direction.
            return super().targets_from(outputs, grad)
        return self._cosines(outputs, grad).argmax(-1), kept

    def _cosines(self, outputs: Tensor, grad: Tensor) -> Tensor:
        r"""Of a gradient with that of each label's loss, up to what all labels share.

        For label $y$ that is $T p - t$, with $T = \sum_k t_k$ and
        $t = (1 - \epsilon) w_y e_y + \epsilon w / K$.
        """
        p = functional.softmax(at_least_float32("Categorical", outputs), -1)
        g, classes = grad.to(p.dtype), p.shape[-1]
        weights = self._class_weights(p)
        own = p.new_ones(classes) if weights is None else weights
        rest = self.label_smoothing * own / classes
        own = (1 - self.label_smoothing) * own
        dot = lambda a, b: (a * b).sum(-1, keepdim=True)
        total = own + rest.sum()
        along = total * dot(g, p) - own * g - dot(g, rest)
        squares = (
            total.square() * dot(p, p)
            - 2 * total * (own * p + dot(p, rest))
            + own.square()
            + 2 * own * rest
            + dot(rest, rest)
        )
        return along / squares.clamp(min=torch.finfo(p.dtype).tiny).sqrt()

    def _classes_last(self, x: Tensor) -> Tensor:
        return x.movedim(self.class_axis, -1) if x.ndim > 2 else x

    def _class_weights(self, like: Tensor) -> Tensor | None:
        if self.class_weights is None:
            return None
        return torch.as_tensor(self.class_weights).to(like)

    def _probabilities(self, targets: Tensor, logits: torch.Size) -> Tensor:
        targets = self._classes_last(targets)
        if targets.shape == logits:
            return targets
        check_shape("Categorical targets", targets.shape, logits[:-1])
        self.refuse_numbers(targets.dtype, targets.shape, logits)

    def _weighted(self, y: Tensor) -> Tensor:
        """Smoothed, and times the weights of the classes."""
        if self.label_smoothing:
            y = y + self.label_smoothing * (1 / y.shape[-1] - y)
        weights = self._class_weights(y)
        return y if weights is None else y * weights

    def _kept(self, targets: Tensor, values: Tensor) -> Tensor:
        if self.ignore_index is None:
            return values
        return values.masked_fill(targets == self.ignore_index, 0)


class IndependentOutputs(families.IndependentOutputs, Likelihood):
    """Outputs that are independent of each other.

    See `adamqlr.families.IndependentOutputs`.
    """

    def matched(self, outputs: Any, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Both as tensors of one shape, which is checked: nothing is broadcast."""
        name = type(self).__name__
        outputs = at_least_float32(name, outputs)
        # Broadcasting (n, 1) against (n,) would quietly compare all pairs of examples.
        check_shape(f"{name} targets", targets.shape, outputs.shape)
        return outputs, targets

    def summed(self, x: Tensor) -> Tensor:
        """Sum over the outputs of each example."""
        axes = self.outputs_of(x.shape)
        return x.flatten(axes[0]).sum(-1) if axes else x


class Gaussian(families.Gaussian, IndependentOutputs):
    """Real targets with one variance: half the squared error.

    See `adamqlr.families.Gaussian`.
    """

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        r"""$\tfrac12 |z - y|^2$."""
        mean, targets = self.matched(outputs, targets)
        return self.summed((mean - targets).square()) / 2

    def fisher(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        r"""$|t|^2$."""
        return self.summed(at_least_float32("Gaussian", tangent).square())

    def scale(self, loss: Tensor, targets: list[Tensor], average: Average) -> Scale:
        """See `Likelihood`."""
        targets = [at_least_float32("Gaussian targets", y) for y in targets]
        width = self.width_of(targets[0].shape)
        mean = average([self.summed(y) for y in targets]) / width
        squares = [self.summed((y - mean).square()) for y in targets]
        return Scale(mean, average(squares) / width, 2 * loss / width)


class HeteroscedasticGaussian(families.HeteroscedasticGaussian, IndependentOutputs):
    """Real targets with a predicted mean and variance.

    See `adamqlr.families.HeteroscedasticGaussian`.
    """

    def loss(self, outputs: tuple[Tensor, Tensor], targets: Tensor) -> Tensor:
        r"""$\tfrac12 (\log v + (\mu - y)^2 / v)$."""
        mean, variance = self._raised(*self._pair(outputs))
        mean, targets = self.matched(mean, targets)
        losses = variance.log() + (mean - targets).square() / variance
        return self.summed(losses + self.constant) / 2

    def fisher(
        self, outputs: tuple[Tensor, Tensor], tangent: tuple[Tensor, Tensor]
    ) -> Tensor:
        r"""$t_\mu^2 / v + t_v^2 / 2 v^2$."""
        _, variance = self._raised(*self._pair(outputs))
        along_mean, along_variance = self._pair(tangent)
        relative = along_variance / variance
        return self.summed(along_mean.square() / variance + relative.square() / 2)

    def _pair(self, given: Any) -> tuple[Tensor, Tensor]:
        """What belongs to mean and variance, both in the mean's shape."""
        name = type(self).__name__
        mean, variance = [at_least_float32(name, part) for part in self.two_of(given)]
        if variance.shape == mean.shape[:-1] != mean.shape:
            variance = variance.unsqueeze(-1)
        self.check_variance(variance.shape, mean.shape)
        return mean, variance.expand_as(mean)

    def _raised(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """With a variance of `eps` at least, and the gradient as if it were not."""
        return mean, variance + (variance.clamp(min=self.eps) - variance).detach()


class Bernoulli(families.Bernoulli, IndependentOutputs):
    """Yes or no from one logit each: binary cross-entropy.

    See `adamqlr.families.Bernoulli`.
    """

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        r"""$w\, (c\, y \log(1 + e^{-z}) + (1 - y) \log(1 + e^z))$."""
        logits, targets = self.matched(outputs, targets)
        losses = functional.binary_cross_entropy_with_logits(
            logits,
            targets.to(logits.dtype),
            self._per_output("output_weights", logits),
            reduction="none",
            pos_weight=self._per_output("pos_weight", logits),
        )
        return self.summed(losses)

    def fisher(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        r"""$w\, p (1 - p)\, t^2$, with $1 - p = \sigma(-z)$ to keep its digits."""
        return self.summed(self._lengths(outputs, tangent))

    def weighted_fisher(
        self, outputs: Tensor, tangent: Tensor, targets: Tensor
    ) -> Tensor:
        r"""$w\, (c\, y + 1 - y)\, p (1 - p)\, t^2$."""
        lengths = self._lengths(outputs, tangent)
        positive = self._per_output("pos_weight", lengths)
        if positive is not None:
            lengths = lengths * (1 + targets.to(lengths.dtype) * (positive - 1))
        return self.summed(lengths)

    def targets_from(self, outputs: Tensor, grad: Tensor) -> tuple[Tensor, None]:
        """Yes, where the loss pulls the logit up."""
        return (grad < 0).to(outputs.dtype), None

    def chance(self, outputs: Tensor) -> float | None:
        """See `Likelihood`."""
        return self.chance_of(outputs.shape)

    def scale(
        self, loss: Tensor, targets: list[Tensor], average: Average
    ) -> Scale | None:
        """See `Likelihood`; with weights, a nat is so much of the loss."""
        if self.output_weights is None:
            return None
        weights = torch.as_tensor(self.output_weights).to(loss)
        return nats_of(weights.square().sum() / weights.sum(), loss)

    def _lengths(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        logits = at_least_float32("Bernoulli", outputs)
        tangent = at_least_float32("Bernoulli", tangent)
        lengths = torch.sigmoid(logits) * torch.sigmoid(-logits) * tangent.square()
        weights = self._per_output("output_weights", logits)
        return lengths if weights is None else weights * lengths

    def _per_output(self, name: str, outputs: Tensor) -> Tensor | None:
        given = getattr(self, name)
        if given is None:
            return None
        weights = torch.as_tensor(given).to(outputs)
        check_broadcast(name, weights.shape, outputs.shape[self.example_axes :])
        return weights


class Poisson(families.Poisson, IndependentOutputs):
    """Counts from log rates or rates. See `adamqlr.families.Poisson`."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        r"""$e^z - y z$ of log rates, $z - y \log(z + \epsilon)$ of rates."""
        outputs, targets = self.matched(outputs, targets)
        losses = functional.poisson_nll_loss(
            outputs,
            targets.to(outputs.dtype),
            log_input=self.log_rate,
            full=self.full,
            eps=self.eps,
            reduction="none",
        )
        return self.summed(losses)

    def fisher(self, outputs: Tensor, tangent: Tensor) -> Tensor:
        r"""$e^z t^2$ of log rates, $t^2 / (z + \epsilon)$ of rates."""
        outputs = at_least_float32("Poisson", outputs)
        tangent = at_least_float32("Poisson", tangent)
        sharpness = outputs.exp() if self.log_rate else 1 / (outputs + self.eps)
        return self.summed(sharpness * tangent.square())

    def least(self, targets: list[Tensor], average: Average) -> Tensor:
        r"""$y - y \log y$, where the rate is the count."""
        losses = []
        for given in targets:
            y = at_least_float32("Poisson targets", given)
            best = y - torch.xlogy(y, y) - (0 if self.log_rate else self.eps)
            losses.append(self.summed(best + self._constant(y)))
        return average(losses)

    def _constant(self, counts: Tensor) -> Tensor | float:
        if not self.full:
            return 0.0
        y = counts.clamp(min=1)
        stirling = y * y.log() - y + (2 * math.pi * y).log() / 2
        return torch.where(counts > 1, stirling, 0)


def at_least_float32(name: str, x: Any) -> Tensor:
    """Half-precision outputs are averaged in float32; wider ones stay as they are."""
    if not isinstance(x, Tensor):
        kind = f"a {type(x).__name__}"
        if isinstance(x, Mapping):
            kind += f" with {', '.join(map(str, x))}"
        raise TypeError(
            f"{name} must come as one tensor, got {kind}: pass outputs=... "
            "to pick it from what the model returns, or use Heads for several"
        )
    return x.to(torch.promote_types(x.dtype, torch.float32))


def nats_of(nat: float | Tensor, loss: Tensor) -> Scale:
    """The scale of a loss that counts nats in a unit of its own."""
    zero = torch.zeros_like(loss)
    return Scale(zero, zero + nat, zero)


def _are_probabilities(targets: Tensor) -> bool:
    return targets.is_floating_point()
