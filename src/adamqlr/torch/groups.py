"""What parameter groups ask of a step: penalties, directions and their lengths.

All work on one tensor for each bundle, `weights` being those of the parameters.
"""

# pyright: reportPrivateImportUsage=false
# The operations on lists of tensors have no public names; torch.optim uses these.

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from adamqlr.torch.bundles import Bundles
from adamqlr.torch.directions import Direction
from adamqlr.torch.scalars import products, total

Hook = Callable[[list[Tensor]], Any]


def gradients(bundles: Bundles) -> list[Tensor]:
    """The parameters' gradients."""
    grads = _own(bundles)
    if any(grad.is_sparse for grad in grads):
        raise ValueError("sparse gradients are not supported: use sparse=False")
    return bundles.joined(grads)


def updates(
    bundles: Bundles, weights: list[Tensor], grads: list[Tensor], clip: Hook | None
) -> tuple[list[Tensor], list[Tensor]]:
    """The raw gradients, and what the direction is made of: clipped, with `l2`."""
    raw = updates = grads
    if clip is not None:
        raw = [grad.clone() for grad in grads]
        bundles.write(grads, _own(bundles))
        clip(bundles.params)
        updates = bundles.joined(_own(bundles))
    for group, own in bundles.by_group:
        if group["l2"] != 0:
            added = torch._foreach_add(updates[own], weights[own], alpha=group["l2"])
            updates = [*updates[: own.start], *added, *updates[own.stop :]]
    return raw, updates


def _own(bundles: Bundles) -> list[Tensor]:
    return [param.grad for param in bundles.params if param.grad is not None]


class Course(NamedTuple):
    r"""Where a step goes.

    Attributes:
        along: $d$, in one tensor for each bundle.
        slope: $g^\top d$ of this process's numbers.
        square_norm: $d^\top d$ likewise.
    """

    along: list[Tensor]
    slope: Tensor
    square_norm: Tensor


def course(
    direction: Direction,
    bundles: Bundles,
    weights: list[Tensor],
    gradients: tuple[list[Tensor], list[Tensor]],
    *,
    spare: bool,
) -> Course:
    """What each group makes of its updates, with its decay of the weights.

    It is shorter where a group's `lr` is below the largest. Directions that may be made
    piece by piece are measured so too, while they are in the cache.

    Args:
        direction: makes it.
        bundles: of the parameters.
        weights: the parameters themselves.
        gradients: raw ones, and what the direction is made of; see `updates`.
        spare: whether directions may take the place of the raw gradients, which spares
            memory that a system would have to clear first.
    """
    largest, places = bundles.rate, gradients[0]
    if bundles.elementwise and not spare:
        places = [torch.empty_like(grad) for grad in places]
    along, slopes, squares = [], [], []
    for group, states, parts in bundles.pieces(weights, *gradients, places):
        own, grads, changed, place = parts
        turned = direction(changed, own, states, group)
        if group["weight_decay"] != 0:
            torch._foreach_add_(turned, own, alpha=group["weight_decay"])
        if largest > 0 and group["lr"] < largest:
            torch._foreach_mul_(turned, float(group["lr"]) / largest)
        slopes += products(grads, turned)
        squares += products(turned, turned)
        if bundles.elementwise:
            torch._foreach_copy_(place, turned)
        else:
            along += turned
    return Course(along or places, total(slopes), total(squares))
