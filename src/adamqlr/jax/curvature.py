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

from adamqlr.jax.objective import Objective
from adamqlr.jax.scalars import inner_product, scalar_dtype
from adamqlr.measurements import Look, Trial
from adamqlr.settings import check_range

ValueFn = Callable[[optax.Params], Array]


class Point(NamedTuple):
    """Where a step starts.

    Attributes:
        value_fn: the loss of the batch: an `Objective`, or any function with `Hessian`.
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
class Probe:
    r"""Curvature and loss from one evaluation of the model at a distance.

    The outputs' difference $(z(\theta) - z(\theta - h d)) / h$ stands for $Jd$, and the
    loss of the same evaluation tells how well the model predicts. One forward pass
    instead of three, no forward-mode derivative, so every model can be probed.

    $h$ is the last step's size, so that the probe sees what a step of that size does,
    but no less than where the difference drowns in the parameters' rounding:
    $h |d| \ge \sqrt{\epsilon}\, (|\theta| + 0.01 \sqrt{P})$, with $\epsilon$ of the
    parameters' type and $P$ their number. The first probe is there.

    Args:
        metric: measures the change of the outputs: `Fisher()` or `GaussNewton()`.
    """

    metric: OutputMetric = Fisher()

    def look(self, point: Point, direction: optax.Updates, reach: Array) -> Look:
        """See `Curvature`."""
        objective, params = as_objective("Probe", point.value_fn), point.params
        # Forward differences lose half their digits at best, at sqrt(epsilon).
        shortest = _epsilon(params) ** 0.5 * _size_along(params, direction)
        distance = jnp.maximum(reach, shortest)
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


def _size_along(params: optax.Params, direction: optax.Updates) -> Float[Array, ""]:
    r"""How many times the direction goes into $|\theta| + 0.01 \sqrt{P}$."""
    numbers = sum(leaf.size for leaf in jax.tree.leaves(params))
    size = inner_product(params, params) ** 0.5 + 0.01 * numbers**0.5
    length = inner_product(direction, direction) ** 0.5
    return size / jnp.where(length == 0, 1, length)


@dataclasses.dataclass(frozen=True)
class LossProbe:
    r"""Curvature of any loss, from its value at a distance.

    $$\frac{2}{h^2} \left| f(\theta - h d) - f(\theta) + h\, g^\top d \right|$$

    One more evaluation of `value_fn` where `Hessian` takes six. A loss by itself says
    nothing of predictions, so that there is no budget in nats (`rule=ANY_LOSS`);
    instead no step goes further than a part of the parameters' own length.

    Args:
        limit: of $|\alpha d|$, in units of $|\theta| + 0.01 \sqrt{P}$ with $P$ the
            number of parameters.
    """

    limit: float = 0.01

    def __post_init__(self) -> None:
        check_range("limit", self.limit, 0, open_low=True)

    def look(self, point: Point, direction: optax.Updates, reach: Array) -> Look:
        """See `Curvature`."""
        size = _size_along(point.params, direction)
        # Second differences by one value and a slope lose two thirds of their digits.
        distance = jnp.maximum(reach, _epsilon(point.params) ** (1 / 3) * size)
        there = point.value_fn(_moved(point.params, distance, direction))
        value = point.value_fn(point.params) if point.value is None else point.value
        return Look(None, Trial(distance, there - value), self.limit * size)


@dataclasses.dataclass(frozen=True)
class Hessian:
    r"""Second derivative of the loss itself, $d^\top \nabla^2 f\, d$.

    Takes any `value_fn`.

    Args:
        signed: keep negative curvature, as the paper does. Its step then *climbs*
            wherever damping does not outweigh it. By default the magnitude is taken,
            so that negative curvature bounds a step as positive curvature does; the
            damping is added to it, which keeps the bend away from zero.
    """

    signed: bool = False

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


@dataclasses.dataclass(frozen=True)
class Subsampled:
    """Another curvature, measured on each `every`-th example of the batch only.

    Args:
        curvature: the one to measure.
        every: 4 means a quarter of the batch, at a quarter of the cost.
    """

    curvature: Curvature
    every: int

    def __post_init__(self) -> None:
        check_range("every", self.every, 1)

    def look(self, point: Point, direction: optax.Updates, reach: Array) -> Look:
        """See `Curvature`."""
        part = as_objective("Subsampled", point.value_fn).part(self.every)
        # Batch norm makes the part's outputs differ from its rows of the batch's.
        look = self.curvature.look(Point(part, point.params), direction, reach)
        if look.trial is None:
            return look
        return look._replace(trial=look.trial._replace(change=None))


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
