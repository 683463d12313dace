r"""How the loss bends along one direction: $d^\top C d$, for several $C$.

A curvature is a value that is passed in. It sees the point at which a step starts and
the direction and answers with one number. Sums over examples are the objective's own
and means the point's, hence normalised like its loss.
"""

import dataclasses
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves, tree_map

from adamqlr import curvatures, rules
from adamqlr.curvatures import LEAST_SIZE, probe_distance
from adamqlr.measurements import Look, Trial
from adamqlr.rules import Scalar
from adamqlr.torch.objective import Objective
from adamqlr.torch.point import Point, as_objective, bare
from adamqlr.torch.products import tangents
from adamqlr.torch.scalars import inner_product, scalar, scalar_dtype


class Curvature(Protocol):
    """Looks from a point along `direction`.

    Exact curvatures are derivatives at the point and make no use of `reach`, the last
    step's size; it is there for those that evaluate the model at a distance.
    """

    def look(self, point: Point, direction: list[Tensor], reach: Scalar) -> Look:
        r"""Measure $d^\top C d$ of the batch that the point belongs to."""
        ...


class OutputMetric(Protocol):
    """A curvature that is a metric on the outputs, pulled back to the parameters."""

    def length(self, objective: Objective, outputs: Any, tangent: Any) -> Tensor:
        """Summed square length of a change of the outputs."""
        ...


@dataclasses.dataclass(frozen=True)
class Fisher:
    r"""True Fisher information, $\mathrm{E}_B[(Jd)^\top F_z\, (Jd)]$.

    One forward-mode product gives $Jd$, the outputs' derivative along $d$; the
    likelihood measures its length (Martens and Grosse 2015, appendix C). A model with
    an operation that has no forward mode gets the product by two backward passes.
    """

    def length(self, objective: Objective, outputs: Any, tangent: Any) -> Tensor:
        """See `OutputMetric`."""
        return objective.sum(objective.fisher(outputs, tangent))

    def look(self, point: Point, direction: list[Tensor], reach: Scalar) -> Look:
        """See `Curvature`."""
        return _pulled_back(self, point, direction)


@dataclasses.dataclass(frozen=True)
class GaussNewton:
    r"""Generalised Gauss-Newton, $\mathrm{E}_B[(Jd)^\top \nabla_z^2 \ell\, (Jd)]$.

    Needs only the likelihood's `loss`, so any loss of the outputs will do; where it is
    convex in the outputs the curvature is never negative.
    """

    def length(self, objective: Objective, outputs: Any, tangent: Any) -> Tensor:
        r"""See `OutputMetric`; here $\partial_s^2 \sum_i w_i \ell(z_i + s t_i)$."""
        with torch.enable_grad():
            first = tree_leaves(tangent)[0]
            s = torch.zeros((), dtype=first.dtype, device=first.device)
            s.requires_grad_()
            moved = tree_map(lambda z, t: z + s * t, outputs, tangent)
            loss = objective.sum(objective.losses(moved))
            (slope,) = torch.autograd.grad(loss, s, create_graph=True)
            if not slope.requires_grad:
                return torch.zeros_like(slope)
            (bend,) = torch.autograd.grad(slope, s)
        return bend

    def look(self, point: Point, direction: list[Tensor], reach: Scalar) -> Look:
        """See `Curvature`."""
        return _pulled_back(self, point, direction)


def _pulled_back(metric: OutputMetric, point: Point, direction: list[Tensor]) -> Look:
    along = tangents(type(metric).__name__, point, direction)
    (curvature,) = point.means(_lengths(metric, point, along))
    return Look(curvature)


def _lengths(metric: OutputMetric, point: Point, along: list[Any]) -> list[Tensor]:
    return [
        metric.length(as_objective(type(metric).__name__, part), outputs, tangent)
        for part, outputs, tangent in zip(
            point.parts, point.outputs, along, strict=True
        )
    ]


@dataclasses.dataclass(frozen=True)
class Probe(curvatures.Probe):
    """Curvature and loss from one evaluation of the model at a distance.

    See `adamqlr.curvatures.Probe`.
    """

    metric: OutputMetric = Fisher()

    def look(self, point: Point, direction: list[Tensor], reach: Scalar) -> Look:
        """See `Curvature`."""
        for part in point.parts:
            as_objective("Probe", part)
        least = rules.where(reach == 0, LEAST_SIZE, 0.0)
        size = _size_along(point, direction, least)
        distance = probe_distance(reach, size, _epsilon(point))
        moved = point.outputs_at(direction, distance)
        along = tree_map(
            lambda z, there: (
                (z.to(dtype := scalar_dtype([z])) - there.to(dtype)) / distance
            ),
            point.outputs,
            moved,
        )
        curvature, there = point.means(
            _lengths(self.metric, point, along), point.loss_sums(moved)
        )
        change = there - scalar(point.loss, point.home)
        return Look(curvature, Trial(distance, change))


def _epsilon(point: Point) -> float:
    """The coarsest rounding of the numbers that an evaluation computes with."""
    dtypes = {param.dtype for param in point.params}
    dtypes = dtypes.union(*[start.computed for start in point.starts])
    return max(torch.finfo(dtype).eps for dtype in dtypes)


def _size_along(
    point: Point, direction: list[Tensor], least: Scalar = LEAST_SIZE
) -> Scalar:
    r"""How many times the direction goes into $|\theta|$ and so much a parameter."""
    params = point.params
    numbers = sum(param.numel() for param in params)
    squares = inner_product(params, params), inner_product(direction, direction)
    size, length = [rules.raised(square, 0.5) for square in point.whole(*squares)]
    return (size + least * numbers**0.5) / rules.where(length == 0, 1, length)


class LossProbe(curvatures.LossProbe):
    """Curvature of any loss, from its value at a distance.

    See `adamqlr.curvatures.LossProbe`.
    """

    def look(self, point: Point, direction: list[Tensor], reach: Scalar) -> Look:
        """See `Curvature`."""
        size = _size_along(point, direction)
        # Second differences by one value and a slope lose two thirds of their digits.
        distance = rules.maximum(_epsilon(point) ** (1 / 3) * size, reach)
        moved = point.outputs_at(direction, distance)
        (there,) = point.means(point.loss_sums(moved))
        change = there - scalar(point.loss, point.home)
        return Look(None, Trial(distance, change), self.limit * size)


class Hessian(curvatures.Hessian):
    """Second derivative of the loss itself. See `adamqlr.curvatures.Hessian`."""

    def look(self, point: Point, direction: list[Tensor], reach: Scalar) -> Look:
        """See `Curvature`."""
        point.refuse_shares("Hessian")
        bends = []
        for part, start in zip(point.parts, point.starts, strict=True):
            # Of the attention kernels only this one has second derivatives.
            with start.again(), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
                model = None if part.model is None else bare(part.model)
                loss = part.sum(part.losses(part.predict(model)))  # type: ignore[arg-type]
                bends.append(_second_derivative(loss, point.params, direction))
        (curvature,) = point.means(bends)
        return Look(curvature if self.signed else abs(curvature))


def _second_derivative(
    loss: Tensor, params: list[Tensor], direction: list[Tensor]
) -> Tensor:
    grads = torch.autograd.grad(loss, params, create_graph=True, allow_unused=True)
    slope = sum(
        (g * d).sum() for g, d in zip(grads, direction, strict=True) if g is not None
    )
    if not isinstance(slope, Tensor) or not slope.requires_grad:
        return torch.zeros_like(loss)
    products = torch.autograd.grad(slope, params, allow_unused=True)
    used = [(p, d) for p, d in zip(products, direction, strict=True) if p is not None]
    return inner_product(*[list(column) for column in zip(*used, strict=True)])


class Subsampled(curvatures.Subsampled):
    """Another curvature, measured on a part of the batch.

    See `adamqlr.curvatures.Subsampled`.
    """

    def look(self, point: Point, direction: list[Tensor], reach: Scalar) -> Look:
        """See `Curvature`."""
        stride = self.stride(point.examples)
        if stride == 1:
            return self.curvature.look(point, direction, reach)
        look = self.curvature.look(point.part(stride), direction, reach)
        return self.without_change(look)
