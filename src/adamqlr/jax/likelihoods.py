r"""What a network's outputs say about its targets, and how sharply.

A likelihood answers two questions of each example: its negative log-likelihood, and
the square length $t^\top F t$ of a change $t$ of the outputs in the Fisher metric
$F = \mathrm{E}_{y \sim p(y|z)}\!\left[\nabla_z \log p\, \nabla_z \log p^\top\right]$.
Averaging over examples is `Objective`'s alone, so that loss, gradient and curvature
cannot be normalised apart.

One of your own is a subclass of `Likelihood` with these two methods; nothing needs to
be registered.
"""

from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Shaped

from adamqlr.step import Scale

Average = Callable[[Float[Array, "*examples"]], Float[Array, ""]]


class Likelihood(Protocol):
    """A family of distributions over targets, given a network's outputs."""

    def loss(self, outputs: Any, targets: Any) -> Float[Array, "*examples"]:
        """Negative log-likelihood of each example, up to a constant."""
        ...

    def fisher(self, outputs: Any, tangent: Any) -> Float[Array, "*examples"]:
        """Fisher length squared of a change of the outputs, for each example."""
        ...

    def scale(
        self, loss: Float[Array, ""], targets: Any, average: Average
    ) -> Scale | None:
        """What a batch says about the targets' scale, where the likelihood does not.

        Args:
            loss: mean over the batch.
            targets: of the batch.
            average: mean over the batch of a number for each example.

        Returns:
            `None`, if the loss is in nats by itself.
        """
        del loss, targets, average
        return None

    def least(self, targets: Any, average: Average) -> float | Array | None:
        """The mean loss that the best of all outputs would have, or a bound below it.

        Args:
            targets: of the batch.
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
    """

    def loss(
        self,
        outputs: Float[Array, "*examples classes"],
        targets: Shaped[Array, "..."],
    ) -> Float[Array, "*examples"]:
        r"""$-\log \mathrm{softmax}(z)_y$."""
        logits, targets = _at_least_float32(outputs), jnp.asarray(targets)
        if targets.shape == logits.shape:
            return optax.softmax_cross_entropy(logits, targets)
        _same_shape("Categorical", logits.shape[:-1], targets.shape)
        if not jnp.issubdtype(targets.dtype, jnp.integer):
            raise TypeError(
                f"Categorical targets of type {targets.dtype} must have the logits' "
                f"shape {logits.shape}, got {targets.shape}: pass integers for class "
                "numbers, or one probability for each class"
            )
        return optax.softmax_cross_entropy_with_integer_labels(logits, targets)

    def fisher(
        self,
        outputs: Float[Array, "*examples classes"],
        tangent: Float[Array, "*examples classes"],
    ) -> Float[Array, "*examples"]:
        r"""Variance of the tangent, $\sum_k p_k (t_k - p \cdot t)^2$.

        Equal to $p \cdot t^2 - (p \cdot t)^2$, without its cancellation.
        """
        logits, tangent = _at_least_float32(outputs), _at_least_float32(tangent)
        p = jax.nn.softmax(logits)
        mean = jnp.sum(p * tangent, axis=-1, keepdims=True)
        return jnp.sum(p * jnp.square(tangent - mean), axis=-1)

    def least(self, targets: Any, average: Average) -> float:
        """See `Likelihood`."""
        return 0.0


class Gaussian(Likelihood):
    r"""Real targets with one variance: half the squared error.

    Loss and curvature are those of unit variance; a divergence in nats is counted with
    the variance that the targets have, so that their units do not matter.

    The last axis holds one example's outputs and is summed; with a single axis, each
    output is an example of its own.
    """

    def loss(
        self, outputs: Float[Array, "..."], targets: Float[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$\tfrac12 |z - y|^2$."""
        mean, targets = _matched("Gaussian", outputs, targets)
        return _sum_outputs(jnp.square(mean - targets)) / 2

    def fisher(
        self, outputs: Float[Array, "..."], tangent: Float[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$|t|^2$."""
        return _sum_outputs(jnp.square(_at_least_float32(tangent)))

    def scale(
        self, loss: Float[Array, ""], targets: Float[Array, "..."], average: Average
    ) -> Scale:
        """See `Likelihood`."""
        outputs = targets.shape[-1] if targets.ndim > 1 else 1
        mean = average(_sum_outputs(targets)) / outputs
        variance = average(_sum_outputs(jnp.square(targets - mean))) / outputs
        return Scale(mean, variance, 2 * loss / outputs)

    def least(self, targets: Any, average: Average) -> float:
        """See `Likelihood`."""
        return 0.0


class Bernoulli(Likelihood):
    """Yes or no from one logit each: binary cross-entropy, summed on the last axis."""

    def loss(
        self, outputs: Float[Array, "..."], targets: Shaped[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$\log(1 + e^z) - y z$."""
        logits, targets = _matched("Bernoulli", outputs, targets)
        return _sum_outputs(optax.sigmoid_binary_cross_entropy(logits, targets))

    def fisher(
        self, outputs: Float[Array, "..."], tangent: Float[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$p(1 - p)\, t^2$, with $1 - p$ taken as $\sigma(-z)$ to keep its digits."""
        logits, tangent = _at_least_float32(outputs), _at_least_float32(tangent)
        variance = jax.nn.sigmoid(logits) * jax.nn.sigmoid(-logits)
        return _sum_outputs(variance * jnp.square(tangent))

    def least(self, targets: Any, average: Average) -> float:
        """See `Likelihood`."""
        return 0.0


class Poisson(Likelihood):
    """Counts from log rates, summed on the last axis; without the constant log y!."""

    def loss(
        self, outputs: Float[Array, "..."], targets: Shaped[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$e^z - y z$."""
        log_rate, targets = _matched("Poisson", outputs, targets)
        return _sum_outputs(jnp.exp(log_rate) - targets * log_rate)

    def fisher(
        self, outputs: Float[Array, "..."], tangent: Float[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$e^z t^2$."""
        log_rate, tangent = _at_least_float32(outputs), _at_least_float32(tangent)
        return _sum_outputs(jnp.exp(log_rate) * jnp.square(tangent))

    def least(self, targets: Shaped[Array, "..."], average: Average) -> Array:
        r"""$y - y \log y$, where the rate is the count."""
        counts = _at_least_float32(targets)
        return average(_sum_outputs(counts - jax.scipy.special.xlogy(counts, counts)))


def _at_least_float32(x: Array) -> Array:
    """Half-precision outputs are averaged in float32; wider ones stay as they are."""
    return jnp.asarray(x, jnp.promote_types(jnp.result_type(x), jnp.float32))


def _matched(name: str, outputs: Array, targets: Array) -> tuple[Array, Array]:
    _same_shape(name, jnp.shape(outputs), jnp.shape(targets))
    return _at_least_float32(outputs), jnp.asarray(targets)


def _same_shape(name: str, expected: tuple[int, ...], targets: tuple[int, ...]) -> None:
    # Broadcasting (n, 1) against (n,) would quietly compare every pair of examples.
    if expected != targets:
        raise ValueError(
            f"{name} targets must have shape {expected} to match the outputs, "
            f"got {targets}"
        )


def _sum_outputs(x: Array) -> Array:
    return x if x.ndim <= 1 else jnp.sum(x, axis=-1)
