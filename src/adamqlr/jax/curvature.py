r"""How the loss bends along one direction: $d^\top C d$, for several $C$.

A curvature is a value that is passed in. It sees the objective, the parameters and the
direction and answers with one number, so no matrix and no vector of the parameters'
size is kept. Averages over examples are the objective's own, hence normalised like
its loss.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from adamqlr import curvatures
from adamqlr.curvatures import LEAST_SIZE, probe_distance
from adamqlr.jax.objective import Objective
from adamqlr.jax.scalars import inner_product, scalar_dtype
from adamqlr.measurements import Look, Trial
from adamqlr.rules import Scalar

ValueFn = Callable[[optax.Params], Array]


class Point(NamedTuple):
    """Where a step starts.

    Attributes:
        value_fn: the loss of the batch: an `Objective`, or any function.
        params: the parameters there.
        outputs: of the objective there, if they are known already; `None` if a
            curvature that needs them has to evaluate the model.
        value: the loss there, if it is known.
    """

    value_fn: ValueFn
    params: optax.Params
    outputs: PyTree = None
    value: Array | None = None


class Curvature(Protocol):
    """Looks from a point along `direction`.

    Exact curvatures are derivatives at the point and make no use of `reach`, the
    last step's size; it is there for those that evaluate the model at a distance.
    """

    def look(self, point: Point, direction: optax.Updates, reach: Array) -> Look:
        r"""Measure $d^\top C d$ of the batch that the point belongs to."""
        ...


class OutputMetric(Protocol):
    """A curvature that is a metric on the outputs, pulled back to the parameters."""

    def length(
        self, objective: Objective, outputs: PyTree, tangent: PyTree
    ) -> Float[Array, ""]:
        """Mean square length of a change of the outputs."""
        ...


@dataclasses.dataclass(frozen=True)
class Fisher:
    r"""True Fisher information, $\mathrm{E}_B[(Jd)^\top F_z\, (Jd)]$.

    One forward-mode product gives $Jd$, the outputs' derivative along $d$; the
    likelihood measures its length (Martens and Grosse 2015, appendix C).
    """

    def length(
        self, objective: Objective, outputs: PyTree, tangent: PyTree
    ) -> Float[Array, ""]:
        """See `OutputMetric`."""
        return objective.average(objective.fisher(outputs, tangent))

    def look(self, point: Point, direction: optax.Updates, reach: Array) -> Look:
        """See `Curvature`."""
        return _pulled_back(self, point, direction)


@dataclasses.dataclass(frozen=True)
class GaussNewton:
    r"""Generalised Gauss-Newton, $\mathrm{E}_B[(Jd)^\top \nabla_z^2 \ell\, (Jd)]$.

    Needs only the likelihood's `loss`, so any loss of the outputs will do; where it is
    convex in the outputs the curvature is never negative.
    """

    def length(
        self, objective: Objective, outputs: PyTree, tangent: PyTree
    ) -> Float[Array, ""]:
        """See `OutputMetric`."""

        def slope(z: PyTree) -> Array:
            return jax.jvp(objective.losses, (z,), (tangent,))[1]

        return objective.average(jax.jvp(slope, (outputs,), (tangent,))[1])

    def look(self, point: Point, direction: optax.Updates, reach: Array) -> Look:
        """See `Curvature`."""
        return _pulled_back(self, point, direction)


def _pulled_back(metric: OutputMetric, point: Point, direction: optax.Updates) -> Look:
    objective = as_objective(type(metric).__name__, point.value_fn)
    outputs, tangent = jax.jvp(objective.outputs, (point.params,), (direction,))
    return Look(metric.length(objective, outputs, tangent))


@dataclasses.dataclass(frozen=True)
class Probe(curvatures.Probe):
    """Curvature and loss from one evaluation of the model at a distance.

    See `adamqlr.curvatures.Probe`.
    """

    metric: OutputMetric = Fisher()

    def look(self, point: Point, direction: optax.Updates, reach: Array) -> Look:
        """See `Curvature`."""
        objective, params = as_objective("Probe", point.value_fn), point.params
        least = jnp.where(reach == 0, LEAST_SIZE, 0)
        size = _size_along(params, direction, least)
        distance = probe_distance(reach, size, _epsilon(params))
        there = _moved(params, distance, direction)
        known = point.outputs is not None
        outputs = point.outputs if known else objective.outputs(params)
        moved = objective.outputs(there)
        wide = lambda tree: optax.tree.cast(tree, scalar_dtype(tree))
        moves = optax.tree.sub(wide(outputs), wide(moved))
        tangent = optax.tree.scale(1 / distance, moves)
        return Look(
            self.metric.length(objective, outputs, tangent),
            Trial(distance, objective.loss(moved) - objective.loss(outputs)),
        )


def _moved(
    params: optax.Params, distance: Float[Array, ""], direction: optax.Updates
) -> optax.Params:
    r"""The parameters at $\theta - h d$."""
    there = optax.tree.add_scale(params, -distance, direction)
    return optax.tree.cast_like(there, params)


def _epsilon(params: optax.Params) -> float:
    """The coarsest rounding of the parameters."""
    return max(float(jnp.finfo(leaf.dtype).eps) for leaf in jax.tree.leaves(params))


def _size_along(
    params: optax.Params, direction: optax.Updates, least: Scalar = LEAST_SIZE
) -> Float[Array, ""]:
    r"""How many times the direction goes into $|\theta|$ and so much a parameter."""
    numbers = sum(leaf.size for leaf in jax.tree.leaves(params))
    size = inner_product(params, params) ** 0.5 + least * numbers**0.5
    length = inner_product(direction, direction) ** 0.5
    return size / jnp.where(length == 0, 1, length)


class LossProbe(curvatures.LossProbe):
    """Curvature of any loss, from its value at a distance.

    See `adamqlr.curvatures.LossProbe`.
    """

    def look(self, point: Point, direction: optax.Updates, reach: Array) -> Look:
        """See `Curvature`."""
        size = _size_along(point.params, direction)
        # Second differences by one value and a slope lose two thirds of their digits.
        distance = jnp.maximum(reach, _epsilon(point.params) ** (1 / 3) * size)
        there = point.value_fn(_moved(point.params, distance, direction))
        value = point.value_fn(point.params) if point.value is None else point.value
        return Look(None, Trial(distance, there - value), self.limit * size)


class Hessian(curvatures.Hessian):
    """Second derivative of the loss itself. See `adamqlr.curvatures.Hessian`."""

    def look(self, point: Point, direction: optax.Updates, reach: Array) -> Look:
        """See `Curvature`."""
        value_fn = point.value_fn
        if isinstance(value_fn, Objective) and value_fn.axis_name:
            raise ValueError(
                "Hessian has no sum over devices, so that it cannot look along "
                f"axis_name={value_fn.axis_name!r}: use Probe(), Fisher() or "
                "GaussNewton()"
            )
        gradient = jax.grad(value_fn)
        _, product = jax.jvp(gradient, (point.params,), (direction,))
        curvature = inner_product(direction, product)
        return Look(curvature if self.signed else abs(curvature))


class Subsampled(curvatures.Subsampled):
    """Another curvature, measured on a part of the batch.

    See `adamqlr.curvatures.Subsampled`.
    """

    def look(self, point: Point, direction: optax.Updates, reach: Array) -> Look:
        """See `Curvature`."""
        objective, outputs = as_objective("Subsampled", point.value_fn), point.outputs
        if outputs is None:
            outputs = jax.eval_shape(objective.outputs, point.params)
        examples = jax.eval_shape(objective.losses, outputs).size
        stride = self.stride(examples)
        if stride == 1:
            return self.curvature.look(point, direction, reach)
        part = objective.part(stride)
        # Batch norm makes the part's outputs differ from its rows of the batch's.
        return self.without_change(
            self.curvature.look(Point(part, point.params), direction, reach)
        )


def as_objective(asking: str, value_fn: ValueFn) -> Objective:
    """The objective that `asking` needs, or an error that says how to pass one."""
    if not isinstance(value_fn, Objective):
        raise TypeError(
            f"{asking} needs the model's outputs, which value_fn of type "
            f"{type(value_fn).__name__} does not show: pass value_fn=Objective("
            "predict, likelihood, inputs, targets), or use LossProbe() and "
            "rule=ANY_LOSS, which take any function"
        )
    return value_fn
