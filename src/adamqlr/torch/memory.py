"""What the method remembers, as parameter groups keep it.

It lives in `param_groups`, since `load_state_dict` casts what belongs to a parameter to
its type. It is the same in every group.
"""

from typing import Any

import torch

from adamqlr import memory
from adamqlr.memory import Memory
from adamqlr.settings import Rule
from adamqlr.torch import scalars
from adamqlr.torch.scalars import placed

Groups = list[dict[str, Any]]

# What it is called in a parameter group.
NAMES = tuple(f"memory_{name}" for name in Memory._fields)


def begin(rule: Rule) -> dict[str, Any]:
    """What is remembered before the first step, as a group's settings."""
    return dict(zip(NAMES, memory.begin(rule), strict=True))


def taken_from(group: dict[str, Any]) -> dict[str, Any]:
    """What a group remembers, for another that joins it."""
    return {name: group[name] for name in NAMES}


def recall(groups: Groups, device: torch.device) -> Memory:
    """What was remembered, or loaded, as the method's scalars on the device."""
    known = [groups[0][name] for name in NAMES]
    if scalars.is_at_hand(device):
        return Memory(*map(float, known))
    # Those that have not been on the device yet would lose digits among its tensors.
    return Memory(*[placed(value, device) for value in known])


def keep(groups: Groups, memory: Memory) -> None:
    """Remember it in all groups."""
    for group in groups:
        group.update(zip(NAMES, memory, strict=True))


def filled_in(rule: Rule, theirs: Groups) -> Groups:
    """Loaded groups; what a checkpoint of an earlier version lacks begins anew."""
    return [begin(rule) | group for group in theirs]


def groups_of_another(own: Groups, theirs: Groups) -> Groups | None:
    """Our groups with their parameters, if theirs are those of another optimiser."""
    if all(NAMES[0] in group for group in theirs) or len(own) != len(theirs):
        return None
    pairs = zip(own, theirs, strict=True)
    return [group | {"params": their["params"]} for group, their in pairs]
