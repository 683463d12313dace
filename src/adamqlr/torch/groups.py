"""What parameter groups ask of a step: penalties, directions and their lengths.

All work on one tensor for each bundle, `weights` being those of the parameters.
"""

# pyright: reportPrivateImportUsage=false
# The operations on lists of tensors have no public names; torch.optim uses these.

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from adamqlr.torch.bundles import Bundles
from adamqlr.torch.directions import Direction

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


def directions(
    direction: Direction,
    bundles: Bundles,
    weights: list[Tensor],
    updates: list[Tensor],
) -> list[Tensor]:
    """What each group makes of its updates, with its decay of the weights."""
    directions: list[Tensor] = []
    for group, own in bundles.by_group:
        states = [bundle.state for bundle in bundles.members[own]]
        turned = direction(updates[own], weights[own], states, group)
        if group["weight_decay"] != 0:
            torch._foreach_add_(turned, weights[own], alpha=group["weight_decay"])
        directions += turned
    return directions


def evened_out(bundles: Bundles, along: list[Tensor]) -> float:
    """Shorten the direction where `lr` is below the largest, which is returned."""
    rates = [float(bundle.group["lr"]) for bundle in bundles.members]
    largest = max(rates)
    if largest > 0 and min(rates) < largest:
        torch._foreach_mul_(along, [rate / largest for rate in rates])
    return largest
