"""The loss of one batch, as a function of the parameters that knows its own outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree

from adamqlr.jax.axes import AxisName, refuse_sharded, shared, summed, total
from adamqlr.jax.likelihoods import Likelihood, as_likelihood
from adamqlr.likelihoods import losses_of
from adamqlr.measurements import Batch


@dataclasses.dataclass(frozen=True, eq=False)  # arrays have no hash, jit wants one
class Objective:
    r"""Weighted mean negative log-likelihood of a batch, $f(\theta)$.

    $$f(\theta) = \sum_i w_i\, \ell(z_i(\theta), y_i) \Big/ \sum_i w_i$$

    It is called with the parameters alone, so it serves as optax's `value_fn`; a
    curvature also asks it for the outputs $z$ and for the same weighted mean. Random
    keys, model state and modes are bound in `predict`, and so are the same wherever
    one step evaluates the model.

    Args:
        predict: maps `(params, inputs)` to the network's outputs.
        likelihood: what the outputs say about the targets.
        inputs: of the batch; any pytree of arrays with examples on the first axis.
        targets: of the batch, likewise.
        weights: non-negative, one for each example, or fewer axes than that (one for
            each sequence of tokens, say). Zero leaves an example out: a mask.
        has_aux: whether `predict` returns `(outputs, aux)`, aux being the new model
            state, say.
        penalty: maps the parameters to a number that is added to the loss, a weight
            times their square norm say. Value and gradient have it; it is none of the
            outputs' doing, so Fisher and Gauss-Newton have not.
        axis_name: of the axis, or axes, over which `pmap`, `shard_map` or `vmap` cuts
            the batch. Loss, gradient and curvature are then those of the joined batch,
            on every device; all must have the same parameters. `()` says that devices
            have nothing to do with each other.

    Examples:
        >>> import jax, jax.numpy as jnp
        >>> from adamqlr.jax import Gaussian, Objective
        >>> objective = Objective(
        ...     lambda params, x: x @ params, Gaussian(),
        ...     inputs=jnp.array([[1.0], [2.0]]), targets=jnp.array([[0.0], [0.0]]),
        ... )
        >>> float(objective(jnp.ones((1, 1))))
        1.25
    """

    predict: Callable[[optax.Params, PyTree], PyTree]
    likelihood: Likelihood
    inputs: PyTree
    targets: PyTree
    weights: Array | None = None
    has_aux: bool = False
    penalty: Callable[[optax.Params], Float[Array, ""]] | None = None
    axis_name: AxisName = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "likelihood", as_likelihood(self.likelihood))

    def __call__(
        self, params: optax.Params, *, outputs: PyTree = None
    ) -> Float[Array, ""]:
        """The loss alone, as `value_fn` wants it.

        Line searches of optax hand `value_fn` all extra arguments of an update, so also
        the outputs that `train_step` knows; at other parameters they are of no use.
        """
        del outputs
        return self.with_aux(params)[0]

    def with_aux(self, params: optax.Params) -> tuple[Float[Array, ""], PyTree]:
        """The loss and `predict`'s aux, for `value_and_grad(..., has_aux=True)`."""
        loss, (_, aux) = self.with_outputs(params)
        return loss, aux

    def with_outputs(
        self, params: optax.Params
    ) -> tuple[Float[Array, ""], tuple[PyTree, PyTree]]:
        """The loss, and beside it the outputs and `predict`'s aux.

        An update that is handed the outputs (`outputs=...`) need not evaluate the
        model at `params` again. With a penalty they are a pair `(outputs, penalty)`.
        """
        if self.axis_name:
            refuse_sharded(params, self.axis_name)
            params = shared(params, self.axis_name)
        outputs, aux = self._evaluated(params)
        return self.loss(outputs), (outputs, aux)

    def loss(self, outputs: PyTree) -> Float[Array, ""]:
        """The mean loss of outputs on this batch."""
        values = self.losses(outputs)
        if not self.axis_name:
            return self.average(values)
        sum_, count = self._sums(values)
        return summed(sum_ / self._divisor(count), self.axis_name)

    def losses(self, outputs: PyTree) -> Float[Array, "*examples"]:
        """The loss of each example, which `average` makes the batch's."""
        penalised = self.penalty is not None
        losses = losses_of(self.likelihood, outputs, self.targets, penalised)
        if losses.shape == ():
            raise ValueError(
                f"loss of {_name(self.likelihood)} must return one number for each "
                "example, got one for all: leave the mean over examples to Objective "
                "(an example by itself has a first axis of 1)"
            )
        return losses

    def fisher(self, outputs: PyTree, tangent: PyTree) -> Float[Array, "*examples"]:
        """Fisher length squared of a change of the outputs, for each example."""
        examples = jax.eval_shape(self.losses, outputs).shape
        if self.penalty is not None:
            (outputs, _), (tangent, _) = outputs, tangent
        lengths = self.likelihood.weighted_fisher(outputs, tangent, self.targets)
        if jnp.shape(lengths) != examples:
            raise ValueError(
                f"fisher of {_name(self.likelihood)} must return one number for each "
                f"example, as its loss does with shape {examples}, got "
                f"{jnp.shape(lengths)}: sum over the outputs of an example, and "
                "not over examples"
            )
        return lengths

    def outputs(self, params: optax.Params) -> PyTree:
        """The network's outputs on this batch; with a penalty, both."""
        return self._evaluated(params)[0]

    def _evaluated(self, params: optax.Params) -> tuple[PyTree, PyTree]:
        outputs, aux = self.predict(params, self.inputs), None
        if self.has_aux:
            outputs, aux = _pair(outputs)
        if self.penalty is not None:
            penalty = jnp.asarray(self.penalty(params))
            if penalty.shape != ():
                raise ValueError(
                    "penalty must return one number, which is added to the mean loss, "
                    f"got shape {penalty.shape}: sum it"
                )
            outputs = (outputs, penalty)
        return outputs, aux

    def average(self, values: Float[Array, "*examples"]) -> Float[Array, ""]:
        """The one normalisation: weighted mean of a number for each example."""
        sum_, count = self._sums(values)
        return total(sum_, self.axis_name) / self._divisor(count)

    def _sums(self, values: Float[Array, "*examples"]) -> tuple[Array, Array]:
        """The weighted sum of a number for each example, and what these count."""
        counts = self._counts(values.shape, values.dtype)
        if counts is None:
            return jnp.sum(values), jnp.asarray(values.size, values.dtype)
        if self.weights is not None:
            weights = self._weights(values.shape, values.dtype)
            # A masked example may hold anything, NaN too.
            values = jnp.where(weights == 0, 0, weights * values)
        return jnp.sum(values), jnp.sum(counts)

    def _divisor(self, count: Array) -> Array:
        """What all examples count; a batch of none has loss zero."""
        count = total(count, self.axis_name)
        return jnp.where(count == 0, 1, count)

    def batch(self, outputs: PyTree, loss: Float[Array, ""]) -> Batch:
        """What the likelihood says about this batch, given its outputs and loss."""
        likelihood, least, chance = self.likelihood, None, None
        if self.penalty is None:  # Which may have any sign.
            least = likelihood.least(self.targets, self.average)
            chance = likelihood.chance(outputs)
        return Batch(
            examples=self._examples(outputs),
            scale=likelihood.scale(loss, self.targets, self.average),
            least=least,
            chance=chance,
        )

    def _examples(self, outputs: PyTree) -> Float[Array, ""]:
        r"""How many examples the mean is over, $(\sum_i w_i)^2 / \sum_i w_i^2$.

        Their number without weights; of a mask, how many it keeps (Kish 1965): one
        at least, unless it keeps none.
        """
        losses = jax.eval_shape(self.losses, outputs)
        counts = self._counts(losses.shape, losses.dtype)
        if counts is None:
            return total(jnp.asarray(losses.size, losses.dtype), self.axis_name)
        sums = jnp.sum(counts), jnp.sum(jnp.square(counts))
        count, squares = total(sums, self.axis_name)
        effective = count**2 / jnp.where(squares == 0, 1, squares)
        return jnp.where(count == 0, 0, jnp.maximum(effective, 1))

    def has_examples(self) -> bool | Bool[Array, ""]:
        """Whether any example counts: in a batch of padding alone none does."""
        counts = self.likelihood.counts(self.targets)
        given = self.weights if counts is None else counts
        shape = () if given is None else jnp.shape(given)
        counts = self._counts(shape, jnp.result_type(float))
        return counts is None or total(jnp.sum(counts), self.axis_name) != 0

    def _counts(
        self, shape: tuple[int, ...], dtype: jnp.dtype
    ) -> Float[Array, "*examples"] | None:
        """What each example counts in the mean's divisor; `None` if all count one."""
        counts = self.likelihood.counts(self.targets)
        if self.weights is None:
            return None if counts is None else counts.astype(dtype)
        weights = jnp.broadcast_to(self._weights(shape, dtype), shape)
        if counts is None:
            return weights
        return jnp.where(weights == 0, 0, weights * counts.astype(dtype))

    def _weights(self, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
        """The weights, with as many axes as the examples."""
        weights = jnp.asarray(self.weights, dtype)
        if weights.shape != shape[: weights.ndim]:
            raise ValueError(
                f"weights must have the leading axes of the examples {shape}, got "
                f"{weights.shape}: how many axes number examples is the likelihood's "
                "example_axes"
            )
        return weights.reshape(weights.shape + (1,) * (len(shape) - weights.ndim))

    def part(self, every: int) -> Objective:
        """The same objective on each `every`-th example.

        A stride rather than a head: sorted batches stay mixed, and a batch sharded
        over devices stays evenly spread.
        """
        take = lambda tree: jax.tree.map(lambda leaf: leaf[::every], tree)
        return dataclasses.replace(
            self,
            inputs=take(self.inputs),
            targets=take(self.targets),
            weights=take(self.weights),
        )


def _name(likelihood: Likelihood) -> str:
    return type(getattr(likelihood, "given", likelihood)).__name__


def _pair(returned: PyTree) -> tuple[PyTree, PyTree]:
    """Outputs and aux; an array of two rows is no pair."""
    if isinstance(returned, tuple | list) and len(returned) == 2:
        return returned[0], returned[1]
    raise TypeError(
        f"predict must return (outputs, aux) where has_aux=True, got "
        f"{type(returned).__name__}; a model with state returns (outputs, new state)"
    )
