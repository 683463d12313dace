"""The outputs' exact derivative along a direction, $Jd$."""

import warnings
import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from adamqlr.torch.objective import Objective
from adamqlr.torch.point import Point, as_objective, bare
from adamqlr.torch.replay import Start

# Models whose forward-mode derivative was tried in vain, not to try at each step.
_WITHOUT_FORWARD_MODE: "weakref.WeakSet[nn.Module]" = weakref.WeakSet()


def tangents(asking: str, point: Point, direction: list[Tensor]) -> list[Any]:
    """$Jd$ of each part, with the step's own dropout masks and buffers."""
    point.refuse_shares(asking)
    # Of the attention kernels only this one has derivatives of every kind.
    with sdpa_kernel(SDPBackend.MATH):
        return [
            _tangent(as_objective(asking, part), start, point.params, direction)
            for part, start in zip(point.parts, point.starts, strict=True)
        ]


def _tangent(
    objective: Objective, start: Start, params: list[Tensor], direction: list[Tensor]
) -> Any:
    model = bare(objective.model)
    if model not in _WITHOUT_FORWARD_MODE:
        try:
            with start.again():
                return forward_product(objective, params, direction)
        except torch.OutOfMemoryError:
            raise
        except (NotImplementedError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
        _WITHOUT_FORWARD_MODE.add(model)
        warnings.warn(
            f"{type(model).__name__} has no forward-mode derivative ({reason}); its "
            "exact product is taken by two backward passes, which costs more. Probe() "
            "needs neither",
            stacklevel=2,
        )
    with start.again():
        return double_backward_product(objective, params, direction)


@torch.no_grad()
def forward_product(
    objective: Objective, params: list[Tensor], direction: list[Tensor]
) -> Any:
    """$Jd$ by forward mode: each operation carries its derivative along.

    Dual numbers rather than `torch.func.jvp`: that changes the memory layout inside
    attention, and with it which elements a dropout of the same seed keeps.
    """
    model = bare(objective.model)
    along = {id(p): d for p, d in zip(params, direction, strict=True)}
    with forward_ad.dual_level():
        duals = {
            name: forward_ad.make_dual(param.detach(), along[id(param)])
            for name, param in model.named_parameters()
            if id(param) in along
        }

        def moving(*args: Tensor, **named: Tensor) -> Tensor:
            return functional_call(model, duals, args, named)

        outputs = objective.predict(moving)
        return tree_map(_derivative, outputs)


def _derivative(dual: Tensor) -> Tensor:
    tangent = forward_ad.unpack_dual(dual).tangent
    return torch.zeros_like(dual) if tangent is None else tangent


def double_backward_product(
    objective: Objective, params: list[Tensor], direction: list[Tensor]
) -> Any:
    r"""$Jd$ by two backward passes: the derivative of $u^\top J d$ by $u$."""
    with torch.enable_grad():
        outputs, spec = tree_flatten(objective.predict(bare(objective.model)))
        # What does not depend on the parameters has no derivative.
        moving = [z for z in outputs if z.requires_grad]
        u = [torch.zeros_like(z, requires_grad=True) for z in moving]
        pulled = torch.autograd.grad(
            moving, params, u, create_graph=True, allow_unused=True
        )
        used = [(p, d) for p, d in zip(pulled, direction, strict=True) if p is not None]
        products, directions = zip(*used, strict=True)
        found = iter(torch.autograd.grad(products, u, directions, allow_unused=True))
    tangents = [next(found) if z.requires_grad else None for z in outputs]
    filled = [
        torch.zeros_like(z) if t is None else t
        for z, t in zip(outputs, tangents, strict=True)
    ]
    return tree_unflatten(filled, spec)
