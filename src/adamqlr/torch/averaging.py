"""The mean of the parameters, kept beside them and put in their place to evaluate.

It lives in the optimiser's state of each parameter as `average`; while it stands in
their place, what is trained waits there as `iterate`. So checkpoints of either mode
hold both.
"""

from typing import Any

import torch
from torch import Tensor

from adamqlr.rules import Scalar
from adamqlr.torch.scalars import like
from adamqlr.torch.sharding import local

States = dict[Tensor, dict[str, Any]]


@torch.no_grad()
def update(states: list[dict[str, Any]], params: list[Tensor], weight: Scalar) -> None:
    """Move each average by `weight`, in [0, 1], of its distance to the parameter."""
    for state, param in zip(states, params, strict=True):
        if "average" not in state:
            # Means of half-precision parameters would not feel a small weight.
            wide = torch.promote_types(param.dtype, torch.float32)
            state["average"] = param.detach().to(wide, copy=True)
    _approach([state["average"] for state in states], params, weight)


@torch.no_grad()
def update_others(states: States, moved: list[Tensor], weight: Scalar) -> None:
    """The same for parameters that a step has left alone: they are iterates as well.

    The average of a layer that is frozen along the way would else stay a mean of what
    the others have not been trained with for long.
    """
    if len(states) == len(moved):  # As nearly always.
        return
    known = {id(param) for param in moved}
    others = [
        (local(state["average"]), local(param))
        for param, state in states.items()
        if id(param) not in known and "average" in state
    ]
    if others:
        averages, params = map(list, zip(*others, strict=True))
        _approach(averages, params, weight)


def _approach(averages: list[Tensor], params: list[Tensor], weight: Scalar) -> None:
    weights = like(weight, averages)
    for average, param, share in zip(averages, params, weights, strict=True):
        average.lerp_(param.to(average.dtype), share)


@torch.no_grad()
def put_in_place(states: States) -> None:
    """Let parameters hold their averages, and keep what is trained aside."""
    for param, state in states.items():
        if "average" in state and "iterate" not in state:
            state["iterate"] = param.detach().clone()
            param.copy_(state["average"])
    torch.clear_autocast_cache()


@torch.no_grad()
def take_back(states: States) -> None:
    """Let parameters hold again what is trained."""
    for param, state in states.items():
        if "iterate" in state:
            param.copy_(state.pop("iterate"))
    torch.clear_autocast_cache()


def is_in_place(states: States) -> bool:
    """Whether parameters hold their averages now."""
    return any("iterate" in state for state in states.values())


def load(states: States, params: list[Tensor], loaded: dict[int, Any]) -> None:
    """Take over a checkpoint's averages, by the parameters' numbers, in their type."""
    for number, param in enumerate(params):
        average = loaded.get(number, {}).get("average")
        if average is not None:
            states[param]["average"] = average.to(param.device, copy=True)
