"""Several heads of one network, each with a likelihood of its own."""

from typing import Any

from torch import Tensor

from adamqlr import heads
from adamqlr.heads import Name, part_of
from adamqlr.measurements import Scale
from adamqlr.torch.likelihoods import Average, Likelihood, nats_of
from adamqlr.torch.losses import as_likelihood


class Heads(heads.Heads[Tensor], Likelihood):
    """The weighted sum of the losses of several heads; see `adamqlr.heads.Heads`.

    Examples:
        >>> import torch
        >>> from adamqlr.torch import Categorical, Gaussian, Heads
        >>> heads = Heads(
        ...     {"kind": Categorical(), "size": Gaussian()}, {"kind": 2.0, "size": 1.0}
        ... )
        >>> outputs = {"kind": torch.zeros(3, 2), "size": torch.ones(3, 1)}
        >>> targets = {"kind": torch.tensor([0, 1, 1]), "size": torch.zeros(3, 1)}
        >>> [round(float(loss), 3) for loss in heads.loss(outputs, targets)]
        [1.886, 1.886, 1.886]
    """

    def read(self, likelihood: Any) -> Likelihood:
        """See `adamqlr.heads.Heads`; here also a loss of `torch.nn`."""
        return as_likelihood(likelihood)

    def mean(self, values: Tensor) -> Tensor:
        """See `adamqlr.heads.Heads`."""
        if values.ndim <= self.example_axes:
            return values
        return values.flatten(self.example_axes).mean(-1)

    def scale(self, loss: Tensor, targets: list[Any], average: Average) -> Scale:
        """See `Likelihood`."""
        own = lambda name: _parts(targets, name)
        return nats_of(self.nat(loss, own, self._averaged(average)), loss)

    def least(self, targets: list[Any], average: Average) -> float | Tensor | None:
        """See `Likelihood`."""
        own = lambda name: _parts(targets, name)
        return self.least_sum(own, self._averaged(average))

    def _averaged(self, average: Average) -> Average:
        return lambda parts: average([self.mean(values) for values in parts])


def _parts(trees: list[Any], name: Name) -> list[Any]:
    return [part_of(tree, name) for tree in trees]
