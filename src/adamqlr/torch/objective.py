"""The loss of one batch, at the parameters that the model has at the time."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from adamqlr.likelihoods import losses_of
from adamqlr.rules import Scalar, where
from adamqlr.torch.losses import as_likelihood
from adamqlr.torch.scalars import placed, wide


class Tally(NamedTuple):
    r"""What a weighted mean is over: $\sum_i w_i$ and $\sum_i w_i^2$."""

    total: Scalar
    squares: Scalar


# How to take the outputs from what a model returns: a function, or a name.
Pick = Callable[[Any], Any] | str | None


class Arguments(NamedTuple):
    """All that a model was called with."""

    args: tuple[Any, ...]
    named: dict[str, Any]


class Objective:
    r"""Weighted mean negative log-likelihood of a batch, $f(\theta)$.

    $$f(\theta) = \sum_i w_i\, \ell(z_i(\theta), y_i) \Big/ \sum_i w_i$$

    `optimizer.step(objective)` takes the gradient, looks along the direction and steps;
    there is no `backward` to call. Called by itself, it is the loss, with its graph.

    Args:
        model: called with the inputs in the mode it is in.
        likelihood: what the outputs say about the targets, or a loss of `torch.nn` or
            `torch.nn.functional` (`docs/losses.md` has a table).
        inputs: of the batch; a tuple or list is passed as positional arguments and a
            mapping by name.
        targets: of the batch, examples on the first axis.
        weights: non-negative, one for each example, or fewer axes than that (one for
            each sequence of tokens, say). Zero leaves an example out: a mask.
        outputs: picks the outputs from what the model returns, by a function or by the
            name of an attribute or entry. By default they are its `logits` where it has
            such, or all it returns: a tensor, or several where the likelihood is of
            several, as `Heads` is.
        penalty: maps the model to a number that is added to the loss, a weight times
            the square norm of its parameters say; called after each evaluation of the
            model. Value and gradient have it; it is none of the outputs' doing, so
            Fisher and Gauss-Newton have not.

    Examples:
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
        *,
        outputs: Pick = None,
        penalty: Callable[[nn.Module], Tensor] | None = None,
    ):
        if not isinstance(model, nn.Module):
            raise TypeError(
                f"model must be a torch.nn.Module, got {type(model).__name__}"
            )
        self.model = model
        self.likelihood = as_likelihood(likelihood)
        self.inputs, self.weights = inputs, weights
        self.targets = _blank_masked(targets, weights)
        self.outputs, self.penalty = outputs, penalty

    @property
    def parts(self) -> tuple[Objective, ...]:
        """The micro-batches: this one alone."""
        return (self,)

    def __call__(self) -> Tensor:
        """The loss at the model's parameters, with its graph."""
        values = self.losses(self.predict(self.model))
        return self.sum(values) / at_least_something(self.tally(values).total)

    def predict(self, model: Callable[..., Any]) -> Any:
        """The outputs of the model, or of one that stands in for it.

        With a penalty, a pair of both.
        """
        match inputs := as_they_are(self.inputs):
            case Arguments(args, named):
                returned = model(*args, **named)
            case Mapping():
                returned = model(**inputs)
            case tuple() | list():
                returned = model(*inputs)
            case _:
                returned = model(inputs)
        outputs = picked(self.outputs, returned)
        if self.penalty is None:
            return outputs
        return outputs, self.penalty(self.model)

    def losses(self, outputs: Any) -> Tensor:
        """The loss of each example, in float32 at least, whatever autocast says."""
        with without_autocast(tree_leaves(outputs)[0].device.type):
            penalised = self.penalty is not None
            return losses_of(self.likelihood, outputs, self.targets, penalised)

    def fisher(self, outputs: Any, tangent: Any) -> Tensor:
        """Fisher length squared of a change of the outputs, for each example."""
        if self.penalty is not None:
            (outputs, _), (tangent, _) = outputs, tangent
        with without_autocast(tree_leaves(outputs)[0].device.type):
            return self.likelihood.weighted_fisher(outputs, tangent, self.targets)

    def sum(self, values: Tensor) -> Tensor:
        """Weighted sum of a number for each example."""
        if self.weights is None:
            return values.sum()
        weights = _aligned(self.weights, values).to(values.dtype)
        # A masked example may hold anything, NaN too.
        return torch.where(weights == 0, 0, weights * values).sum()

    def tally(self, values: Tensor) -> Tally:
        """What the mean of a number for each example is over."""
        counts = self.likelihood.counts(self.targets)
        if self.weights is None and counts is None:
            return Tally(values.numel(), values.numel())
        each = wide(torch.ones_like(values))
        if self.weights is not None:
            each = each * _aligned(self.weights, values)
        if counts is not None:
            each = torch.where(each == 0, 0, each * counts)
        return Tally(each.sum(), each.square().sum())

    def scaled(self, factor: Scalar, device: torch.device) -> Objective:
        """The same objective, whose examples weigh so many times as much."""
        scaled = copy.copy(self)
        weights = placed(factor, device)
        weights = weights if self.weights is None else weights * self.weights
        scaled.weights = weights.to(torch.get_default_dtype())
        return scaled

    def part(self, every: int) -> Objective:
        """The same objective on each `every`-th example."""
        cut = lambda leaf: isinstance(leaf, Tensor) and leaf.ndim > 0
        take = lambda leaf: leaf[::every] if cut(leaf) else leaf
        part = copy.copy(self)
        part.inputs = tree_map(take, self.inputs)
        part.targets = tree_map(take, self.targets)
        part.weights = take(self.weights)
        return part


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

    model = inputs = None

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


def without_autocast(kind: str) -> contextlib.AbstractContextManager[Any]:
    """Autocast is off inside, on a kind of device."""
    if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
        return contextlib.nullcontext()  # Which takes a tenth of the time.
    return torch.autocast(kind, enabled=False)


def as_they_are(inputs: Any) -> Any:
    """The same tensors in lists and mappings of their own, which a model may change."""
    return inputs if isinstance(inputs, Tensor) else tree_map(_itself, inputs)


def _itself(leaf: Any) -> Any:
    return leaf


def at_least_something(total: Scalar) -> Scalar:
    """What to divide a sum by: one where there is nothing, whose sum is zero."""
    return where(total == 0, 1, total)


def picked(pick: Pick, returned: Any) -> Any:
    """The outputs among what a model returned."""
    if callable(pick):
        outputs = pick(returned)
    elif pick is None:
        outputs = getattr(returned, "logits", returned)
    elif isinstance(returned, Mapping) and pick in returned:
        outputs = returned[pick]
    elif hasattr(returned, pick):
        outputs = getattr(returned, pick)
    else:
        raise ValueError(
            f"outputs={pick!r} is no attribute or entry of the "
            f"{type(returned).__name__} that the model returns"
        )
    strange = [leaf for leaf in tree_leaves(outputs) if not isinstance(leaf, Tensor)]
    if strange:
        raise TypeError(
            f"the model's outputs must be tensors, got a {type(strange[0]).__name__}: "
            "pass outputs=... to pick them from what the model returns"
        )
    return outputs


def _aligned(weights: Tensor, values: Tensor) -> Tensor:
    """Weights with as many axes as the values."""
    if weights.shape != values.shape[: weights.ndim]:
        raise ValueError(
            "weights must have the leading axes of the examples "
            f"{tuple(values.shape)}, got {tuple(weights.shape)}: how many axes number "
            "examples is the likelihood's example_axes"
        )
    return weights.reshape(weights.shape + (1,) * (values.ndim - weights.ndim))


def _blank_masked(targets: Any, weights: Tensor | None) -> Any:
    """Put class 0 where a mask leaves an example out: -100, say, is no class."""
    if weights is None:
        return targets
    return tree_map(lambda leaf: _blanked(leaf, weights), targets)


def _blanked(targets: Any, weights: Tensor) -> Any:
    if not isinstance(targets, Tensor) or targets.dtype.is_complex:
        return targets
    if targets.is_floating_point() or weights.ndim > targets.ndim:
        return targets
    return targets.masked_fill(_aligned(weights, targets) == 0, 0)
