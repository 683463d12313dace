"""Tensors of which each process has a share, as `fully_shard` makes them."""

import sys
from typing import Any

import torch.distributed
from torch import Tensor


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is one process's share of a distributed one."""
    # Its module takes seconds to import; who has such a tensor has done it.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local(tensor: Tensor) -> Tensor:
    """The numbers that are in this process, which share the tensor's memory."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def share_like(numbers: Tensor, param: Tensor) -> Tensor:
    """This process's numbers as a share of a tensor like the parameter."""
    if not is_sharded(param):
        return numbers
    whole: Any = param
    return type(whole).from_local(
        numbers,
        whole.device_mesh,
        whole.placements,
        run_check=False,
        shape=whole.shape,
        stride=whole.stride(),
    )


def sharing_group(params: list[Tensor]) -> torch.distributed.ProcessGroup | None:
    """The processes that have shares of the parameters; `None` if nobody else has."""
    sharded: list[Any] = [param for param in params if is_sharded(param)]
    return sharded[0].device_mesh.get_group() if sharded else None
