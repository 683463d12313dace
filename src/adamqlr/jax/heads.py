"""Several heads of one network, each with a likelihood of its own."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from adamqlr import heads
from adamqlr.heads import part_of
from adamqlr.jax.likelihoods import Average, Likelihood, as_likelihood, nats_of
from adamqlr.measurements import Scale


class Heads(heads.Heads[Array], Likelihood):
    """The weighted sum of the losses of several heads; see `adamqlr.heads.Heads`.

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

    def read(self, likelihood: Any) -> Likelihood:
        """See `adamqlr.heads.Heads`."""
        return as_likelihood(likelihood)

    def mean(self, values: Array) -> Float[Array, "*examples"]:
        """See `adamqlr.heads.Heads`."""
        return jnp.mean(values, axis=tuple(range(self.example_axes, values.ndim)))

    def scale(self, loss: Float[Array, ""], targets: PyTree, average: Average) -> Scale:
        """See `Likelihood`."""
        own, mean = lambda name: part_of(targets, name), lambda x: average(self.mean(x))
        return nats_of(self.nat(loss, own, mean), loss)

    def least(self, targets: PyTree, average: Average) -> float | Array | None:
        """See `Likelihood`."""
        own, mean = lambda name: part_of(targets, name), lambda x: average(self.mean(x))
        return self.least_sum(own, mean)
