"""Errors that outliers do not rule: the absolute error and Huber's."""

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from adamqlr import families
from adamqlr.jax.likelihoods import (
    Average,
    IndependentOutputs,
    at_least_float32,
    nats_of,
)
from adamqlr.measurements import Scale


class Laplace(families.Laplace, IndependentOutputs):
    """Real targets with heavy tails: the absolute error.

    See `adamqlr.families.Laplace`.
    """

    def loss(
        self, outputs: Float[Array, "..."], targets: Float[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$|z - y|$: $b$ times the negative log-likelihood."""
        median, targets = self.matched(outputs, targets)
        return self.summed(abs(median - targets))

    def fisher(
        self, outputs: Float[Array, "..."], tangent: Float[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$t^2 / b$: $b$ times the Fisher information."""
        lengths = jnp.square(at_least_float32("Laplace", tangent))
        return self.summed(lengths) / self.deviation

    def scale(self, loss: Float[Array, ""], targets: PyTree, average: Average) -> Scale:
        """A nat is `deviation` of this loss, or the mean error while that is larger."""
        scale = nats_of(self.deviation, loss)
        return scale._replace(error=loss / self.width_of(jnp.shape(targets)))


class Huber(families.Huber, IndependentOutputs):
    """Real targets with outliers: Huber's error. See `adamqlr.families.Huber`."""

    def loss(
        self, outputs: Float[Array, "..."], targets: Float[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$\tfrac12 r^2$ up to $\delta$, $\delta (|r| - \tfrac12 \delta)$ beyond."""
        centre, targets = self.matched(outputs, targets)
        errors = abs(centre - targets)
        inner = jnp.minimum(errors, self.delta)
        return self.summed(inner * (errors - inner / 2))

    def fisher(
        self, outputs: Float[Array, "..."], tangent: Float[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$0.585\, t^2$: $\delta^2$ times the Fisher information."""
        lengths = jnp.square(at_least_float32("Huber", tangent))
        return families.HUBER_INFORMATION * self.summed(lengths)

    def scale(self, loss: Float[Array, ""], targets: PyTree, average: Average) -> Scale:
        r"""A nat is $\delta^2$ of this loss, or the mean error while that is larger."""
        scale = nats_of(self.delta**2, loss)
        return scale._replace(error=loss / self.width_of(jnp.shape(targets)))
