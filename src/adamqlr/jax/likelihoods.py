r"""What a network's outputs say about its targets, and how sharply.

A likelihood answers two questions of each example: its negative log-likelihood, and
the square length $t^\top F t$ of a change $t$ of the outputs in the Fisher metric
$F = \mathrm{E}_{y \sim p(y|z)}\!\left[\nabla_z \log p\, \nabla_z \log p^\top\right]$.
Averaging over examples is `Objective`'s alone, so that loss, gradient and curvature
cannot be normalised apart.

One of your own is any class with these two methods, `loss` and `fisher`; nothing needs
to be registered. `docs/losses.md` says which likelihood to use.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float, PyTree, Shaped

from adamqlr.measurements import Scale
from adamqlr.settings import check_range

Average = Callable[[Float[Array, "*examples"]], Float[Array, ""]]
Weights = ArrayLike | Sequence[float]


@runtime_checkable
class Likelihood(Protocol):
    """A family of distributions over targets, given a network's outputs."""

    def loss(self, outputs: PyTree, targets: PyTree) -> Float[Array, "*examples"]:
        """Negative log-likelihood of each example, up to a constant."""
        ...

    def fisher(self, outputs: PyTree, tangent: PyTree) -> Float[Array, "*examples"]:
        """Fisher length squared of a change of the outputs, for each example."""
        ...

    def weighted_fisher(
        self, outputs: PyTree, tangent: PyTree, targets: PyTree
    ) -> Float[Array, "*examples"]:
        """`fisher`, times what the targets make it count in the loss.

        Only a likelihood with weights of its own, as those of classes are, has more to
        say than `fisher` does.
        """
        del targets
        return self.fisher(outputs, tangent)

    def counts(self, targets: PyTree) -> Float[Array, "*examples"] | None:
        """How much each example counts in the number that divides the summed loss.

        Returns:
            `None`, if each counts one.
        """
        del targets
        return None

    def scale(
        self, loss: Float[Array, ""], targets: PyTree, average: Average
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

    def least(self, targets: PyTree, average: Average) -> float | Array | None:
        """The mean loss that the best of all outputs would have, or a bound below it.

        Args:
            targets: of the batch.
            average: mean over the batch of a number for each example.

        Returns:
            `None`, if it is not known.
        """
        del targets, average
        return None


def as_likelihood(given: Any) -> Likelihood:
    """A likelihood as it is, or one made of an object with `loss` and `fisher`.

    Raises:
        TypeError: it lacks one of the two; the message says which.
    """
    if isinstance(given, type):
        raise TypeError(
            f"likelihood must be an object, got the class {given.__name__}: "
            f"pass {given.__name__}()"
        )
    if isinstance(given, Likelihood):
        return given
    methods = ("loss", "fisher")
    missing = [name for name in methods if not callable(getattr(given, name, None))]
    if missing:
        raise TypeError(
            "likelihood must have methods loss(outputs, targets) and fisher(outputs, "
            f"tangent), as Categorical() has, got {given!r} without "
            f"{' and '.join(missing)}"
        )
    return _WithDefaults(given)


class _WithDefaults(Likelihood):
    """An object's own methods, and those of `Likelihood` where it has none."""

    def __init__(self, given: Any):
        self.given = given
        for name in ("weighted_fisher", "counts", "scale", "least"):
            if callable(getattr(given, name, None)):
                setattr(self, name, getattr(given, name))

    def loss(self, outputs: PyTree, targets: PyTree) -> Float[Array, "*examples"]:
        return self.given.loss(outputs, targets)

    def fisher(self, outputs: PyTree, tangent: PyTree) -> Float[Array, "*examples"]:
        return self.given.fisher(outputs, tangent)


@dataclasses.dataclass(frozen=True, eq=False)  # the class weights may be an array
class Categorical(Likelihood):
    r"""Classes from logits on the last axis: softmax cross-entropy.

    Targets are integers, or floats in the logits' shape for probabilities (one-hot or
    soft). All axes but the last are examples, so sequences of tokens are a batch like
    any. The Fisher information is the loss's Gauss-Newton matrix: the one of the logits
    times the weight that the example's targets have.

    Args:
        label_smoothing: $\epsilon$ in [0, 1]; mixes the targets with the uniform
            distribution, $(1 - \epsilon) y + \epsilon / K$ for $K$ classes.
        class_weights: one for each class, which multiplies its term of the loss. Of
            integer targets the mean is weighted by them, so that it is divided by the
            weights of all labels; of probabilities, as in torch, it is divided by the
            number of examples.
        ignore_index: integer target of examples to leave out, padding say.
    """

    label_smoothing: float = 0.0
    class_weights: Weights | None = None
    ignore_index: int | None = None

    def __post_init__(self) -> None:
        check_range("label_smoothing", self.label_smoothing, 0, 1)

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
            return
        check_shape("Categorical targets", targets.shape, logits[:-1])
        if _are_probabilities(targets):
            raise TypeError(
                f"Categorical targets of type {targets.dtype} must have the logits' "
                f"shape {logits}, got {targets.shape}: pass integers for class "
                "numbers, or one probability for each class"
            )

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


@dataclasses.dataclass(frozen=True)
class IndependentOutputs(Likelihood):
    """Outputs that are independent of each other: an example's loss is their sum.

    Args:
        example_axes: how many leading axes number examples. All other axes hold the
            outputs of one example: by default an image is one example, and so is a
            sequence. With 2 each step of a sequence is an example of its own, which
            may then have a weight of its own.
    """

    example_axes: int = dataclasses.field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        check_range("example_axes", self.example_axes, 1)

    def matched(self, outputs: PyTree, targets: PyTree) -> tuple[Array, Array]:
        """Both as arrays of one shape, which is checked: nothing is broadcast."""
        name = type(self).__name__
        outputs = at_least_float32(name, outputs)
        # Broadcasting (n, 1) against (n,) would quietly compare all pairs of examples.
        check_shape(f"{name} targets", jnp.shape(targets), outputs.shape)
        return outputs, jnp.asarray(targets)

    def summed(self, x: Array) -> Float[Array, "*examples"]:
        """Sum over the outputs of each example."""
        if x.ndim < self.example_axes:
            raise ValueError(
                f"{type(self).__name__} with example_axes={self.example_axes} needs "
                f"outputs with so many axes at least, got shape {x.shape}"
            )
        return jnp.sum(x, axis=tuple(range(self.example_axes, x.ndim)))

    def width(self, targets: PyTree) -> int:
        """How many outputs an example has."""
        return math.prod(jnp.shape(targets)[self.example_axes :])


@dataclasses.dataclass(frozen=True)
class Gaussian(IndependentOutputs):
    r"""Real targets with one variance: half the squared error, summed over outputs.

    Loss and curvature are those of unit variance; a divergence in nats is counted with
    the variance that the targets have, so that their units do not matter. The Fisher
    information is the loss's Gauss-Newton matrix.

    Args:
        example_axes: see `IndependentOutputs`.
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
        width = self.width(targets)
        mean = average(self.summed(targets)) / width
        variance = average(self.summed(jnp.square(targets - mean))) / width
        return Scale(mean, variance, 2 * loss / width)

    def least(self, targets: PyTree, average: Average) -> float:
        """See `Likelihood`."""
        return 0.0


@dataclasses.dataclass(frozen=True)
class HeteroscedasticGaussian(IndependentOutputs):
    r"""Real targets whose mean and variance the network both predicts.

    Outputs are a pair `(mean, variance)`, the mean in the targets' shape. The variance
    has that shape too, or one on the last axis, or no last axis, where it is the same
    for all outputs there. Let the network end in a softplus or an exponential for it.
    The curvature is the Fisher information.

    Args:
        eps: variances below count as this; their gradient stays.
        full: add the constant $\tfrac12 \log 2\pi$ for each output.
        example_axes: see `IndependentOutputs`.
    """

    eps: float = 1e-6
    full: bool = False

    def loss(
        self,
        outputs: tuple[Float[Array, "..."], Float[Array, "..."]],
        targets: Float[Array, "..."],
    ) -> Float[Array, "*examples"]:
        r"""$\tfrac12 (\log v + (\mu - y)^2 / v)$."""
        mean, variance = self._raised(*self._pair(outputs))
        mean, targets = self.matched(mean, targets)
        losses = jnp.log(variance) + jnp.square(mean - targets) / variance
        return self.summed(losses + (math.log(2 * math.pi) if self.full else 0)) / 2

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
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise TypeError(
                f"{name} needs outputs (mean, variance), got {type(given).__name__}"
            )
        mean, variance = [at_least_float32(name, part) for part in given]
        if variance.shape == mean.shape[:-1] != mean.shape:
            variance = variance[..., None]
        if variance.shape not in (mean.shape, (*mean.shape[:-1], 1)):
            raise ValueError(
                f"{name} variance must have the shape of the mean {mean.shape}, or one "
                f"on its last axis, got {variance.shape}"
            )
        return mean, jnp.broadcast_to(variance, mean.shape)

    def _raised(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """With a variance of `eps` at least, and the gradient as if it were not."""
        raised = jnp.maximum(variance, self.eps)
        return mean, variance + jax.lax.stop_gradient(raised - variance)


@dataclasses.dataclass(frozen=True, eq=False)  # the weights may be arrays
class Bernoulli(IndependentOutputs):
    r"""Yes or no from one logit each: binary cross-entropy, summed over outputs.

    The Fisher information is the loss's Gauss-Newton matrix: with `pos_weight`, that of
    each logit times the weight of its target.

    Args:
        pos_weight: what a positive target counts, for each output of an example or for
            all of them.
        output_weights: what each output of an example counts.
        example_axes: see `IndependentOutputs`.
    """

    pos_weight: Weights | None = None
    output_weights: Weights | None = None

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

    def scale(
        self, loss: Float[Array, ""], targets: PyTree, average: Average
    ) -> Scale | None:
        """See `Likelihood`; with weights, a nat is so much of the loss."""
        if self.output_weights is None:
            return None
        weights = jnp.asarray(self.output_weights, loss.dtype)
        return nats_of(jnp.sum(jnp.square(weights)) / jnp.sum(weights), loss)

    def least(self, targets: PyTree, average: Average) -> float:
        """See `Likelihood`."""
        return 0.0

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


@dataclasses.dataclass(frozen=True)
class Poisson(IndependentOutputs):
    r"""Counts from log rates or rates, summed over outputs.

    The curvature is the Fisher information; for log rates it is the loss's Gauss-Newton
    matrix too.

    Args:
        log_rate: whether the outputs are the rates' logarithms; rates as they are must
            not be negative.
        full: add Stirling's approximation of $\log y!$ for counts above one.
        eps: added to a rate before its logarithm is taken.
        example_axes: see `IndependentOutputs`.
    """

    log_rate: bool = True
    full: bool = False
    eps: float = 1e-8

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


def check_shape(name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Refuse an array of another shape than the outputs ask for."""
    if found != expected:
        raise ValueError(
            f"{name} must have shape {expected} to match the outputs, got {found}"
        )


def check_broadcast(name: str, found: tuple[int, ...], event: tuple[int, ...]) -> None:
    """Refuse weights that are not one for each output of an example."""
    padded = (1,) * (len(event) - len(found)) + tuple(found)
    fits = all(own in (1, size) for own, size in zip(padded, event, strict=False))
    if len(padded) > len(event) or not fits:
        raise ValueError(
            f"{name} of shape {found} must broadcast to the outputs of one example, "
            f"{event}; weights of examples go to Objective(weights=...)"
        )


def _are_probabilities(targets: Array) -> bool:
    return not jnp.issubdtype(targets.dtype, jnp.integer)
