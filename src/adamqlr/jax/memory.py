"""What the batches so far have shown, and how far it lets the next step go."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from adamqlr import rules
from adamqlr.jax.likelihoods import Scale


class Seen(NamedTuple):
    r"""What all batches so far have shown.

    Attributes:
        curvature: running mean of $d^\top C d / d^\top d$.
        examples: how many there were, as far as a budget counts them.
        mean: of all targets, where a budget needs the scale that the likelihood
            leaves open; zero elsewhere, as the next two.
        variance: of all targets.
        error: running mean of their square distance to the predictions.
    """

    curvature: Float[Array, ""]
    examples: Float[Array, ""]
    mean: Float[Array, ""]
    variance: Float[Array, ""]
    error: Float[Array, ""]

    @classmethod
    def nothing(cls, dtype: jnp.dtype) -> "Seen":
        """Before the first batch."""
        return cls(*[jnp.zeros((), dtype) for _ in cls._fields])

    def with_curvature(
        self,
        curvature: Float[Array, ""],
        square_norm: Float[Array, ""],
        decay: float,
    ) -> "Seen":
        r"""With one more $d^\top C d$ along a $d$ of such a $d^\top d$."""
        steepness = curvature / (square_norm + (square_norm == 0))
        mean = rules.running_mean(self.curvature, steepness, decay)
        return self._replace(curvature=mean)

    def with_batch(
        self, examples: Float[Array, ""], scale: Scale | None, decay: float
    ) -> "Seen":
        """With one more batch of so many examples, and their targets' scale."""
        seen = self._replace(examples=self.examples + examples)
        if scale is None:
            return seen
        share = examples / seen.examples
        variance = rules.pooled_variance(
            self.mean, self.variance, scale.mean, scale.variance, share
        )
        return seen._replace(
            mean=self.mean + share * (scale.mean - self.mean),
            variance=variance,
            error=rules.running_mean(self.error, scale.error, decay),
        )


class Budget(NamedTuple):
    """What a step may cost.

    Attributes:
        dispersion: what a nat is in units of the loss.
        allowed: most divergence of a step, in units of the loss; `None` for no limit.
        least: the loss below which no step can go; `None` if that is not known.
    """

    dispersion: float | Float[Array, ""]
    allowed: Float[Array, ""] | None
    least: float | Float[Array, ""] | None
