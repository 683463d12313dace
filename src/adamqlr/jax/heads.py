"""Several heads of one network, each with a likelihood of its own."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from adamqlr.heads import Head, check_same_examples, heads_of, part_of
from adamqlr.jax.likelihoods import (
    Average,
    Likelihood,
    as_likelihood,
    nats_of,
)
from adamqlr.measurements import Scale
from adamqlr.settings import check_range


@dataclasses.dataclass(frozen=True, eq=False)  # dictionaries have no hash
class Heads(Likelihood):
    r"""The weighted sum of the losses of several heads, $\sum_h w_h \ell_h$.

    Outputs and targets are mappings with the likelihoods' names, or tuples in their
    order. All heads have the same examples. Where a head has several numbers for one
    example, the losses of a sequence's tokens say, their mean counts, so that the loss
    is the weighted sum of the heads' own means. What a head ignores (`ignore_index`)
    adds nothing to its example, and class weights multiply: the divisor is the number
    of examples, which all heads share.

    Args:
        likelihoods: one for each head, by name or in order.
        weights: $w_h \ge 0$, likewise; `None` for ones.
        example_axes: how many leading axes number examples: 1 for examples that are
            images or sequences, 2 where all heads speak of tokens.

    Examples:
        >>> import jax.numpy as jnp
        >>> from adamqlr.jax import Categorical, Gaussian, Heads
        >>> heads = Heads(
        ...     {"kind": Categorical(), "size": Gaussian()}, {"kind": 2.0, "size": 1.0}
        ... )
        >>> outputs = {"kind": jnp.zeros((3, 2)), "size": jnp.ones((3, 1))}
        >>> targets = {"kind": jnp.array([0, 1, 1]), "size": jnp.zeros((3, 1))}
        >>> [round(float(loss), 3) for loss in heads.loss(outputs, targets)]
        [1.886, 1.886, 1.886]
    """

    likelihoods: Mapping[str, Any] | Sequence[Any]
    weights: Mapping[str, float] | Sequence[float] | None = None
    example_axes: int = dataclasses.field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        check_range("example_axes", self.example_axes, 1)
        self.heads()

    def heads(self) -> list[Head]:
        """All of them, in order."""
        own = heads_of(self.likelihoods, self.weights)
        return [
            head._replace(likelihood=as_likelihood(head.likelihood)) for head in own
        ]

    def loss(self, outputs: PyTree, targets: PyTree) -> Float[Array, "*examples"]:
        """See `Likelihood`."""
        return self._sum(lambda own, z, y: own.loss(z, y), outputs, targets)

    def fisher(self, outputs: PyTree, tangent: PyTree) -> Float[Array, "*examples"]:
        """See `Likelihood`."""
        return self._sum(lambda own, z, t: own.fisher(z, t), outputs, tangent)

    def weighted_fisher(
        self, outputs: PyTree, tangent: PyTree, targets: PyTree
    ) -> Float[Array, "*examples"]:
        """See `Likelihood`."""
        length = lambda own, z, t, y: own.weighted_fisher(z, t, y)
        return self._sum(length, outputs, tangent, targets)

    def scale(self, loss: Float[Array, ""], targets: PyTree, average: Average) -> Scale:
        r"""A nat of head $h$ is $w_h \phi_h$ of this loss: their mean, weighted by $w$.

        Of a head's own loss only the mean over all heads is known here.
        """
        heads, mean = self.heads(), lambda values: average(self._mean(values))
        total = sum(head.weight for head in heads) or 1.0
        nat = 0.0
        for name, weight, likelihood in heads:
            scale = likelihood.scale(loss / total, part_of(targets, name), mean)
            own = 1.0 if scale is None else jnp.maximum(scale.variance, scale.error)
            nat += weight**2 * own / total
        return nats_of(nat, loss)

    def least(self, targets: PyTree, average: Average) -> float | Array | None:
        """See `Likelihood`."""
        mean, total = lambda values: average(self._mean(values)), 0.0
        for name, weight, likelihood in self.heads():
            least = likelihood.least(part_of(targets, name), mean)
            if least is None:
                return None
            total += weight * least
        return total

    def _sum(
        self, function: Callable[..., Array], *trees: PyTree
    ) -> Float[Array, "*examples"]:
        """The weighted sum over heads of a number for each example."""
        values = {}
        for name, weight, likelihood in self.heads():
            parts = [part_of(tree, name) for tree in trees]
            values[name] = weight * self._mean(function(likelihood, *parts))
        check_same_examples({name: v.shape for name, v in values.items()})
        return functools.reduce(jnp.add, values.values())

    def _mean(self, values: Array) -> Float[Array, "*examples"]:
        """Over all that a head has for one example."""
        return jnp.mean(values, axis=tuple(range(self.example_axes, values.ndim)))
