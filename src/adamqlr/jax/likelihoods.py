"""What a network's outputs say about its targets, and how sharply.

`adamqlr.likelihoods` says what a likelihood is, `adamqlr.families` which there are and
what they can be told; here is what each computes. One of your own is any class with
two methods, `loss` and `fisher`; nothing needs to be registered. `docs/losses.md` says
which likelihood to use.
"""

import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree, Shaped

from adamqlr import families, likelihoods
from adamqlr.likelihoods import check_broadcast, check_shape
from adamqlr.measurements import Scale

Average = Callable[[Float[Array, "*examples"]], Float[Array, ""]]


@runtime_checkable
class Likelihood(likelihoods.Likelihood[Array], Protocol):
    """A family of distributions over targets; see `adamqlr.likelihoods.Likelihood`."""


def as_likelihood(given: Any) -> Likelihood:
    """A likelihood as it is, or one made of an object with `loss` and `fisher`.

    Raises:
        TypeError: it lacks one of the two; the message says which.
    """
    likelihoods.refuse_class(given)
    if isinstance(given, Likelihood):
        return given
    missing = likelihoods.missing_methods(given)
    if missing:
        raise TypeError(
            "likelihood must have methods loss(outputs, targets) and fisher(outputs, "
            f"tangent), as Categorical() has, got {given!r} without "
            f"{' and '.join(missing)}"
        )
    return _WithDefaults(given)


class _WithDefaults(likelihoods.WithDefaults[Array], Likelihood):
    """An object's own methods, and those of `Likelihood` where it has none."""


class Categorical(families.Categorical, Likelihood):
    """Classes from logits on the last axis: softmax cross-entropy.

    See `adamqlr.families.Categorical`.
    """

    def loss(
        self,
        outputs: Float[Array, "*examples classes"],
        targets: Shaped[Array, "..."],
    ) -> Float[Array, "*examples"]:
        r"""$-\sum_k w_k y_k \log \mathrm{softmax}(z)_k$."""
        logits, targets = at_least_float32("Categorical", outputs), jnp.asarray(targets)
        self._check(logits.shape, targets)
        if _are_probabilities(targets):
            y = self._weighted(self._smoothed(targets, logits.dtype))
            return optax.softmax_cross_entropy(logits, y)
        labels = self._labels(targets)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        # NaN as for labels that are too large: a negative one counts from the end.
        losses = jnp.where(labels < 0, jnp.nan, losses)
        losses = self._weights_of(labels, logits.dtype) * losses
        if self.label_smoothing:
            uniform = jnp.full_like(logits, 1 / logits.shape[-1])
            spread = optax.softmax_cross_entropy(logits, self._weighted(uniform))
            losses += self.label_smoothing * (spread - losses)
        return self._kept(targets, losses)

    def fisher(
        self,
        outputs: Float[Array, "*examples classes"],
        tangent: Float[Array, "*examples classes"],
    ) -> Float[Array, "*examples"]:
        r"""Variance of the tangent, $\sum_k p_k (t_k - p \cdot t)^2$.

        Equal to $p \cdot t^2 - (p \cdot t)^2$, without its cancellation.
        """
        logits = at_least_float32("Categorical", outputs)
        tangent = at_least_float32("Categorical", tangent)
        p = jax.nn.softmax(logits)
        mean = jnp.sum(p * tangent, axis=-1, keepdims=True)
        return jnp.sum(p * jnp.square(tangent - mean), axis=-1)

    def weighted_fisher(
        self,
        outputs: Float[Array, "*examples classes"],
        tangent: Float[Array, "*examples classes"],
        targets: Shaped[Array, "..."],
    ) -> Float[Array, "*examples"]:
        r"""`fisher` times $\sum_k w_k y_k$, of the smoothed targets."""
        lengths, targets = self.fisher(outputs, tangent), jnp.asarray(targets)
        if _are_probabilities(targets):
            y = self._weighted(self._smoothed(targets, lengths.dtype))
            return jnp.sum(y, axis=-1) * lengths
        weights = self._weights_of(self._labels(targets), lengths.dtype)
        if self.class_weights is not None:
            mean = jnp.mean(jnp.asarray(self.class_weights, lengths.dtype))
            weights += self.label_smoothing * (mean - weights)
        return self._kept(targets, weights * lengths)

    def counts(self, targets: Shaped[Array, "..."]) -> Float[Array, "*examples"] | None:
        """The weight of each label; zero for those to ignore."""
        targets = jnp.asarray(targets)
        plain = self.class_weights is None and self.ignore_index is None
        if plain or _are_probabilities(targets):
            return None
        dtype = jnp.result_type(float)
        weights = self._weights_of(self._labels(targets), dtype)
        return self._kept(targets, jnp.broadcast_to(weights, targets.shape))

    def chance(self, outputs: PyTree) -> float | None:
        """See `Likelihood`."""
        return self.chance_among(jnp.shape(outputs)[-1])

    def least(self, targets: PyTree, average: Average) -> float | Array:
        """The entropy of targets that are probabilities, zero for others."""
        targets = jnp.asarray(targets)
        if not _are_probabilities(targets):
            return 0.0
        y = self._weighted(self._smoothed(targets, jnp.result_type(targets, float)))
        total = jnp.sum(y, axis=-1, keepdims=True)
        shares = y / jnp.where(total == 0, 1, total)
        return average(-jnp.sum(jax.scipy.special.xlogy(y, shares), axis=-1))

    def _check(self, logits: tuple[int, ...], targets: Shaped[Array, "..."]) -> None:
        if self.class_weights is not None:
            weights = jnp.asarray(self.class_weights)
            check_shape("class_weights", weights.shape, logits[-1:])
        if targets.shape == logits and _are_probabilities(targets):
            if self.ignore_index is not None:
                raise ValueError(
                    f"ignore_index={self.ignore_index!r} is a class number, and the "
                    "targets are probabilities: leave examples out by a weight of "
                    "zero, Objective(weights=...)"
                )
            return
        check_shape("Categorical targets", targets.shape, logits[:-1])
        if _are_probabilities(targets):
            self.refuse_numbers(targets.dtype, targets.shape, logits)

    def _smoothed(
        self, targets: Array, dtype: jnp.dtype
    ) -> Float[Array, "*examples classes"]:
        y = jnp.asarray(targets, dtype)
        if not self.label_smoothing:
            return y
        return y + self.label_smoothing * (1 / y.shape[-1] - y)

    def _weighted(self, probabilities: Array) -> Float[Array, "*examples classes"]:
        if self.class_weights is None:
            return probabilities
        return probabilities * jnp.asarray(self.class_weights, probabilities.dtype)

    def _labels(self, targets: Array) -> Array:
        if self.ignore_index is None:
            return targets
        return jnp.where(targets == self.ignore_index, 0, targets)

    def _weights_of(self, labels: Array, dtype: jnp.dtype) -> Array:
        if self.class_weights is None:
            return jnp.ones((), dtype)
        return jnp.asarray(self.class_weights, dtype)[labels]

    def _kept(self, targets: Array, values: Array) -> Array:
        if self.ignore_index is None:
            return values
        return jnp.where(targets == self.ignore_index, 0, values)


class IndependentOutputs(families.IndependentOutputs, Likelihood):
    """Outputs that are independent of each other.

    See `adamqlr.families.IndependentOutputs`.
    """

    def matched(self, outputs: PyTree, targets: PyTree) -> tuple[Array, Array]:
        """Both as arrays of one shape, which is checked: nothing is broadcast."""
        name = type(self).__name__
        outputs = at_least_float32(name, outputs)
        # Broadcasting (n, 1) against (n,) would quietly compare all pairs of examples.
        check_shape(f"{name} targets", jnp.shape(targets), outputs.shape)
        return outputs, jnp.asarray(targets)

    def summed(self, x: Array) -> Float[Array, "*examples"]:
        """Sum over the outputs of each example."""
        return jnp.sum(x, axis=self.outputs_of(x.shape))


class Gaussian(families.Gaussian, IndependentOutputs):
    """Real targets with one variance: half the squared error.

    See `adamqlr.families.Gaussian`.
    """

    def loss(
        self, outputs: Float[Array, "..."], targets: Float[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$\tfrac12 |z - y|^2$."""
        mean, targets = self.matched(outputs, targets)
        return self.summed(jnp.square(mean - targets)) / 2

    def fisher(
        self, outputs: Float[Array, "..."], tangent: Float[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$|t|^2$."""
        return self.summed(jnp.square(at_least_float32("Gaussian", tangent)))

    def scale(
        self, loss: Float[Array, ""], targets: Float[Array, "..."], average: Average
    ) -> Scale:
        """See `Likelihood`."""
        targets = at_least_float32("Gaussian targets", targets)
        width = self.width_of(targets.shape)
        mean = average(self.summed(targets)) / width
        variance = average(self.summed(jnp.square(targets - mean))) / width
        return Scale(mean, variance, 2 * loss / width)


class HeteroscedasticGaussian(families.HeteroscedasticGaussian, IndependentOutputs):
    """Real targets with a predicted mean and variance.

    See `adamqlr.families.HeteroscedasticGaussian`.
    """

    def loss(
        self,
        outputs: tuple[Float[Array, "..."], Float[Array, "..."]],
        targets: Float[Array, "..."],
    ) -> Float[Array, "*examples"]:
        r"""$\tfrac12 (\log v + (\mu - y)^2 / v)$."""
        mean, variance = self._raised(*self._pair(outputs))
        mean, targets = self.matched(mean, targets)
        losses = jnp.log(variance) + jnp.square(mean - targets) / variance
        return self.summed(losses + self.constant) / 2

    def fisher(
        self,
        outputs: tuple[Float[Array, "..."], Float[Array, "..."]],
        tangent: tuple[Float[Array, "..."], Float[Array, "..."]],
    ) -> Float[Array, "*examples"]:
        r"""$t_\mu^2 / v + t_v^2 / 2 v^2$."""
        _, variance = self._raised(*self._pair(outputs))
        along_mean, along_variance = self._pair(tangent)
        relative = along_variance / variance
        lengths = jnp.square(along_mean) / variance + jnp.square(relative) / 2
        return self.summed(lengths)

    def _pair(self, given: PyTree) -> tuple[Array, Array]:
        """What belongs to mean and variance, both in the mean's shape."""
        name = type(self).__name__
        mean, variance = [at_least_float32(name, part) for part in self.two_of(given)]
        if variance.shape == mean.shape[:-1] != mean.shape:
            variance = variance[..., None]
        self.check_variance(variance.shape, mean.shape)
        return mean, jnp.broadcast_to(variance, mean.shape)

    def _raised(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """With a variance of `eps` at least, and the gradient as if it were not."""
        raised = jnp.maximum(variance, self.eps)
        return mean, variance + jax.lax.stop_gradient(raised - variance)


class Bernoulli(families.Bernoulli, IndependentOutputs):
    """Yes or no from one logit each: binary cross-entropy.

    See `adamqlr.families.Bernoulli`.
    """

    def loss(
        self, outputs: Float[Array, "..."], targets: Shaped[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$w\, (c\, y \log(1 + e^{-z}) + (1 - y) \log(1 + e^z))$."""
        logits, targets = self.matched(outputs, targets)
        positive = targets * self._per_output("pos_weight", logits)
        negative = 1 - targets
        losses = (
            jax.nn.softplus(-logits) * positive + jax.nn.softplus(logits) * negative
        )
        return self.summed(losses * self._per_output("output_weights", logits))

    def fisher(
        self, outputs: Float[Array, "..."], tangent: Float[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$w\, p (1 - p)\, t^2$, with $1 - p = \sigma(-z)$ to keep its digits."""
        return self.summed(self._lengths(outputs, tangent))

    def weighted_fisher(
        self,
        outputs: Float[Array, "..."],
        tangent: Float[Array, "..."],
        targets: Shaped[Array, "..."],
    ) -> Float[Array, "*examples"]:
        r"""$w\, (c\, y + 1 - y)\, p (1 - p)\, t^2$."""
        lengths, targets = self._lengths(outputs, tangent), jnp.asarray(targets)
        positive = self._per_output("pos_weight", lengths)
        return self.summed(lengths * (1 + targets * (positive - 1)))

    def chance(self, outputs: PyTree) -> float | None:
        """See `Likelihood`."""
        return self.chance_of(jnp.shape(outputs))

    def scale(
        self, loss: Float[Array, ""], targets: PyTree, average: Average
    ) -> Scale | None:
        """See `Likelihood`; with weights, a nat is so much of the loss."""
        if self.output_weights is None:
            return None
        weights = jnp.asarray(self.output_weights, loss.dtype)
        return nats_of(jnp.sum(jnp.square(weights)) / jnp.sum(weights), loss)

    def _lengths(self, outputs: Array, tangent: Array) -> Array:
        logits = at_least_float32("Bernoulli", outputs)
        tangent = at_least_float32("Bernoulli", tangent)
        variance = jax.nn.sigmoid(logits) * jax.nn.sigmoid(-logits)
        weights = self._per_output("output_weights", logits)
        return weights * variance * jnp.square(tangent)

    def _per_output(self, name: str, outputs: Array) -> Array | float:
        given = getattr(self, name)
        if given is None:
            return 1.0
        weights = jnp.asarray(given, outputs.dtype)
        check_broadcast(name, weights.shape, outputs.shape[self.example_axes :])
        return weights


class Poisson(families.Poisson, IndependentOutputs):
    """Counts from log rates or rates. See `adamqlr.families.Poisson`."""

    def loss(
        self, outputs: Float[Array, "..."], targets: Shaped[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$e^z - y z$ of log rates, $z - y \log(z + \epsilon)$ of rates."""
        outputs, targets = self.matched(outputs, targets)
        if self.log_rate:
            losses = jnp.exp(outputs) - targets * outputs
        else:
            losses = outputs - targets * jnp.log(outputs + self.eps)
        return self.summed(losses + self._constant(targets))

    def fisher(
        self, outputs: Float[Array, "..."], tangent: Float[Array, "..."]
    ) -> Float[Array, "*examples"]:
        r"""$e^z t^2$ of log rates, $t^2 / (z + \epsilon)$ of rates."""
        outputs = at_least_float32("Poisson", outputs)
        tangent = at_least_float32("Poisson", tangent)
        sharpness = jnp.exp(outputs) if self.log_rate else 1 / (outputs + self.eps)
        return self.summed(sharpness * jnp.square(tangent))

    def least(self, targets: Shaped[Array, "..."], average: Average) -> Array:
        r"""$y - y \log y$, where the rate is the count."""
        counts = at_least_float32("Poisson targets", targets)
        losses = counts - jax.scipy.special.xlogy(counts, counts)
        losses += self._constant(counts) - (0 if self.log_rate else self.eps)
        return average(self.summed(losses))

    def _constant(self, counts: Array) -> Array | float:
        if not self.full:
            return 0.0
        y = jnp.maximum(counts, 1)
        stirling = y * jnp.log(y) - y + jnp.log(2 * math.pi * y) / 2
        return jnp.where(counts > 1, stirling, 0)


def at_least_float32(name: str, x: PyTree) -> Array:
    """Half-precision outputs are averaged in float32; wider ones stay as they are."""
    if isinstance(x, dict | tuple | list):
        raise TypeError(
            f"{name} must come as one array, got {type(x).__name__}: let predict "
            "return the array, or use Heads for several"
        )
    return jnp.asarray(x, jnp.promote_types(jnp.result_type(x), jnp.float32))


def nats_of(nat: float | Array, loss: Float[Array, ""]) -> Scale:
    """The scale of a loss that counts nats in a unit of its own."""
    zero = jnp.zeros_like(loss)
    return Scale(zero, zero + nat, zero)


def _are_probabilities(targets: Array) -> bool:
    return not jnp.issubdtype(targets.dtype, jnp.integer)
