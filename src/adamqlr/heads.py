"""Several heads of one network, each with a likelihood of its own. No framework."""

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from adamqlr import rules
from adamqlr.likelihoods import Array, Likelihood
from adamqlr.rules import Scalar
from adamqlr.settings import check_range

Name = str | int


class Head(NamedTuple):
    """One of them: its name, or its place among the others, weight and likelihood."""

    name: Name
    weight: float
    likelihood: Any


def heads_of(
    likelihoods: Mapping[str, Any] | Sequence[Any],
    weights: Mapping[str, float] | Sequence[float] | None,
) -> list[Head]:
    """All heads in order.

    Args:
        likelihoods: one for each head, by name or in order.
        weights: of their losses, likewise; `None` for ones.

    Raises:
        ValueError: there is no head, or the weights are not those of the heads.
    """
    given = _by_name(likelihoods)
    if not given:
        raise ValueError("likelihoods must hold one head at least, got none")
    own = dict.fromkeys(given, 1.0) if weights is None else _by_name(weights)
    if own.keys() != given.keys():
        raise ValueError(f"weights must be of the heads {list(given)}, got {list(own)}")
    for name, weight in own.items():
        check_range(f"weights[{name!r}]", weight, 0)
    return [Head(name, own[name], likelihood) for name, likelihood in given.items()]


def part_of(tree: Any, name: Name) -> Any:
    """A head's own outputs or targets, out of those of all heads."""
    if isinstance(tree, Mapping) and name in tree:
        return tree[name]
    if isinstance(tree, tuple | list) and isinstance(name, int) and name < len(tree):
        return tree[name]
    found = list(tree) if isinstance(tree, Mapping) else type(tree).__name__
    raise ValueError(
        f"outputs and targets must have an entry for head {name!r}, got {found}"
    )


def check_same_examples(shapes: Mapping[Name, Sequence[int]]) -> None:
    """Refuse heads that speak of different examples."""
    if len({tuple(shape) for shape in shapes.values()}) > 1:
        found = {name: tuple(shape) for name, shape in shapes.items()}
        raise ValueError(f"heads must all have the same examples, got {found}")


def _by_name(given: Mapping[str, Any] | Sequence[Any]) -> dict[Name, Any]:
    return dict(given.items() if isinstance(given, Mapping) else enumerate(given))


@dataclasses.dataclass(frozen=True, eq=False)  # dictionaries have no hash
class Heads(Likelihood[Array]):
    r"""The weighted sum of the losses of several heads, $\sum_h w_h \ell_h$.

    Outputs and targets are mappings with the likelihoods' names, or tuples in their
    order. All heads have the same examples. Where a head has several numbers for one
    example, the losses of a sequence's tokens say, their mean counts, so that the loss
    is the weighted sum of the heads' own means. What a head ignores (`ignore_index`)
    adds nothing to its example, and class weights multiply: the divisor is the number
    of examples, which all heads share.

    Args:
        likelihoods: one for each head, in torch also a loss of `torch.nn`, by name or
            in order.
        weights: $w_h \ge 0$, likewise; `None` for ones.
        example_axes: how many leading axes number examples: 1 for examples that are
            images or sequences, 2 where all heads speak of tokens.
    """

    likelihoods: Mapping[str, Any] | Sequence[Any]
    weights: Mapping[str, float] | Sequence[float] | None = None
    example_axes: int = dataclasses.field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        check_range("example_axes", self.example_axes, 1)
        self.heads()

    def read(self, likelihood: Any) -> Likelihood[Array]:
        """What is given for a head, as a likelihood."""
        raise NotImplementedError

    def mean(self, values: Array) -> Array:
        """Over all that a head has for one example."""
        raise NotImplementedError

    def heads(self) -> list[Head]:
        """All of them, in order."""
        own = heads_of(self.likelihoods, self.weights)
        return [head._replace(likelihood=self.read(head.likelihood)) for head in own]

    def loss(self, outputs: Any, targets: Any) -> Array:
        """See `Likelihood`."""
        return self._sum(lambda own, z, y: own.loss(z, y), outputs, targets)

    def fisher(self, outputs: Any, tangent: Any) -> Array:
        """See `Likelihood`."""
        return self._sum(lambda own, z, t: own.fisher(z, t), outputs, tangent)

    def weighted_fisher(self, outputs: Any, tangent: Any, targets: Any) -> Array:
        """See `Likelihood`."""
        length = lambda own, z, t, y: own.weighted_fisher(z, t, y)
        return self._sum(length, outputs, tangent, targets)

    def nat(
        self,
        loss: Scalar,
        targets: Callable[[Name], Any],
        average: Callable[[Any], Array],
    ) -> Scalar:
        r"""A nat of head $h$ is $w_h \phi_h$ of this loss: their mean, weighted by $w$.

        Of a head's own loss only the mean over all heads is known here.

        Args:
            loss: mean over the batch.
            targets: of a head, by its name.
            average: mean over the batch of a head's numbers.
        """
        heads = self.heads()
        total = sum(head.weight for head in heads) or 1.0
        nat = 0.0
        for name, weight, likelihood in heads:
            scale = likelihood.scale(loss / total, targets(name), average)
            own = 1.0 if scale is None else rules.maximum(scale.variance, scale.error)
            nat += weight**2 * own / total
        return nat

    def least_sum(
        self, targets: Callable[[Name], Any], average: Callable[[Any], Array]
    ) -> float | Array | None:
        """The weighted sum of what `least` says of each head; arguments as of `nat`."""
        total: Scalar = 0.0
        for name, weight, likelihood in self.heads():
            least = likelihood.least(targets(name), average)
            if least is None:
                return None
            total += weight * least
        return total

    def _sum(self, function: Callable[..., Any], *trees: Any) -> Array:
        """The weighted sum over heads of a number for each example."""
        values: dict[Name, Any] = {}
        for name, weight, likelihood in self.heads():
            parts = [part_of(tree, name) for tree in trees]
            mean: Any = self.mean(function(likelihood, *parts))
            values[name] = weight * mean
        check_same_examples({name: v.shape for name, v in values.items()})
        return functools.reduce(operator.add, values.values())
