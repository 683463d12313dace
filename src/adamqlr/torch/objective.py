"""The loss of one batch, at the parameters that the model has at the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from adamqlr.rules import Scalar, where
from adamqlr.torch.losses import as_likelihood, kept_examples
from adamqlr.torch.scalars import wide


class Tally(NamedTuple):
    r"""What a weighted mean is over: $\sum_i w_i$ and $\sum_i w_i^2$."""

    total: Scalar
    squares: Scalar


class Objective:
    r"""Weighted mean negative log-likelihood of a batch, $f(\theta)$.

    $$f(\theta) = \sum_i w_i\, \ell(z_i(\theta), y_i) \Big/ \sum_i w_i$$

    `optimizer.step(objective)` takes the gradient, looks along the direction and steps;
    there is no `backward` to call. Called by itself, it is the loss, with its graph.

    Args:
        model: called with the inputs in the mode it is in. Its output is a tensor, or
            an object whose `logits` is one.
        likelihood: what the outputs say about the targets, or one of `torch.nn`'s
            `CrossEntropyLoss`, `MSELoss`, `BCEWithLogitsLoss` and `PoissonNLLLoss`.
        inputs: of the batch; a tuple or list is passed as positional arguments and a
            mapping by name.
        targets: of the batch, examples on the first axis.
        weights: non-negative, one for each example, or fewer axes than that (one for
            each sequence of tokens, say). Zero leaves an example out: a mask.

    Example:
        >>> import torch
        >>> from adamqlr.torch import Gaussian, Objective
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> _ = torch.nn.init.ones_(model.weight)
        >>> x, y = torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1)
        >>> Objective(model, Gaussian(), x, y)().item()
        1.25
    """

    def __init__(
        self,
        model: nn.Module,
        likelihood: Any,
        inputs: Any,
        targets: Any,
        weights: Tensor | None = None,
    ):
        if not isinstance(model, nn.Module):
            raise TypeError(
                f"model must be a torch.nn.Module, got {type(model).__name__}"
            )
        self.model = model
        self.likelihood = as_likelihood(likelihood)
        self.inputs = inputs
        kept = kept_examples(likelihood, targets)
        if kept is not None:
            weights = kept if weights is None else _aligned(weights, kept) * kept
        self.weights = weights
        self.targets = _blank_masked(targets, weights)

    @property
    def parts(self) -> tuple[Objective, ...]:
        """The micro-batches: this one alone."""
        return (self,)

    def __call__(self) -> Tensor:
        """The loss at the model's parameters, with its graph."""
        values = self.losses(self.predict(self.model))
        return self.sum(values) / at_least_something(self.tally(values).total)

    def predict(self, model: Callable[..., Any]) -> Tensor:
        """The outputs of the model, or of one that stands in for it."""
        match self.inputs:
            case Mapping():
                outputs = model(**self.inputs)
            case tuple() | list():
                outputs = model(*self.inputs)
            case _:
                outputs = model(self.inputs)
        outputs = getattr(outputs, "logits", outputs)
        if not isinstance(outputs, Tensor):
            raise TypeError(
                "the model must return a tensor or an object with logits, got "
                f"{type(outputs).__name__}: wrap it in a module that picks its outputs"
            )
        return outputs

    def losses(self, outputs: Tensor) -> Tensor:
        """The loss of each example, in float32 at least, whatever autocast says."""
        with torch.autocast(outputs.device.type, enabled=False):
            return self.likelihood.loss(outputs, self.targets)

    def sum(self, values: Tensor) -> Tensor:
        """Weighted sum of a number for each example."""
        if self.weights is None:
            return values.sum()
        weights = _aligned(self.weights, values).to(values.dtype)
        # A masked example may hold anything, NaN too.
        return torch.where(weights == 0, 0, weights * values).sum()

    def tally(self, values: Tensor) -> Tally:
        """What the mean of a number for each example is over."""
        if self.weights is None:
            return Tally(values.numel(), values.numel())
        each = values.numel() / max(self.weights.numel(), 1)
        weights = wide(self.weights)
        return Tally(each * weights.sum(), each * weights.square().sum())

    def part(self, every: int) -> Objective:
        """The same objective on each `every`-th example."""
        take = lambda leaf: leaf[::every] if isinstance(leaf, Tensor) else leaf
        match self.inputs:
            case Mapping():
                inputs = {name: take(leaf) for name, leaf in self.inputs.items()}
            case tuple() | list():
                inputs = tuple(take(leaf) for leaf in self.inputs)
            case _:
                inputs = take(self.inputs)
        return Objective(
            self.model, self.likelihood, inputs, take(self.targets), take(self.weights)
        )


class Accumulated:
    """One objective made of several, when a batch does not fit into memory at once.

    Loss, gradient and curvature are those of all examples together, each weighing
    what it would in one large batch.

    Args:
        objectives: the micro-batches, of one model.
    """

    def __init__(self, objectives: Sequence[Objective]):
        if not objectives:
            raise ValueError("objectives must hold one at least, got none")
        if len({id(objective.model) for objective in objectives}) > 1:
            raise ValueError("objectives must be of one model, got several")
        self.parts = tuple(objectives)


class Closure:
    """A plain function that returns the loss; it has no outputs to look at."""

    model = None

    def __init__(self, function: Callable[[], Tensor]):
        self.function = function
        self.parts = (self,)

    def predict(self, model: None) -> Tensor:
        """The loss itself."""
        loss = self.function()
        if not isinstance(loss, Tensor) or loss.shape != ():
            raise TypeError(f"the closure must return the scalar loss, got {loss!r}")
        if torch.is_grad_enabled() and not loss.requires_grad:
            raise ValueError(
                "the closure must return the loss with its graph: leave backward() "
                "and detach() out of it"
            )
        return loss

    def losses(self, outputs: Tensor) -> Tensor:
        """See `Objective`."""
        return outputs

    def sum(self, values: Tensor) -> Tensor:
        """See `Objective`."""
        return values

    def tally(self, values: Tensor) -> Tally:
        """See `Objective`."""
        return Tally(1, 1)


def at_least_something(total: Scalar) -> Scalar:
    """What to divide a sum by: one where there is nothing, whose sum is zero."""
    return where(total == 0, 1, total)


def _aligned(weights: Tensor, values: Tensor) -> Tensor:
    """Weights with as many axes as the values."""
    if weights.shape != values.shape[: weights.ndim]:
        raise ValueError(
            f"weights must have the leading axes of the examples "
            f"{tuple(values.shape)}, got {tuple(weights.shape)}"
        )
    return weights.reshape(weights.shape + (1,) * (values.ndim - weights.ndim))


def _blank_masked(targets: Any, weights: Tensor | None) -> Any:
    """Put class 0 where a mask leaves an example out: -100, say, is no class."""
    if weights is None or not isinstance(targets, Tensor) or targets.dtype.is_complex:
        return targets
    if targets.is_floating_point() or weights.ndim > targets.ndim:
        return targets
    return targets.masked_fill(_aligned(weights, targets) == 0, 0)
