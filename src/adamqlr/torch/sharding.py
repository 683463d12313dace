"""Tensors of which each process has a share, as `fully_shard` makes them."""

import sys
import zlib
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn


def is_sharded(tensor: Tensor) -> bool:
    """Whether a tensor is one process's share of a distributed one."""
    if type(tensor) is Tensor or type(tensor) is nn.Parameter:  # Nearly all are.
        return False
    # Its module takes seconds to import; who has such a tensor has done it.
    kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    return kind is not None and isinstance(tensor, kind)


def local(tensor: Tensor) -> Tensor:
    """The numbers that are in this process, in the tensor's own memory."""
    if not is_sharded(tensor):
        return tensor
    share: Any = tensor.detach()
    return share.to_local()


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
    if not sharded:
        return None
    axes = max(param.device_mesh.ndim for param in sharded)
    if axes > 1:
        raise ValueError(
            f"parameters are sharded over a mesh of {axes} axes (hybrid or tensor "
            "parallel), which is not supported: use fully_shard with a mesh of one"
        )
    return sharded[0].device_mesh.get_group()


def sharded_modules(modules: Iterable[nn.Module]) -> list[Any]:
    """Those of some modules that `fully_shard` was given."""
    # It came with torch 2.6.
    kind = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    return [] if kind is None else [m for m in modules if isinstance(m, kind)]


def gathered_types(sharded: list[Any]) -> set[torch.dtype]:
    """Types in which a mixed-precision policy has parameters computed with."""
    policies = [module._get_fsdp_state()._mp_policy for module in sharded]
    return {policy.param_dtype for policy in policies} - {None}


def drop_gathered(model: nn.Module | None) -> None:
    """Let the next forward pass gather parameters anew: the shares have changed."""
    for module in sharded_modules(() if model is None else model.modules()):
        module.reshard()


def refuse_other_shares(
    model: nn.Module | None, params: list[Tensor], whole: bool
) -> None:
    """Refuse parameters that are spread over processes in a way that is not known.

    Args:
        model: that they are of; `None` for a plain closure, which shows none.
        params: that are trained.
        whole: whether their direction is made of whole tensors.
    """
    if any(vars(param).get("_fsdp_flattened", False) for param in params):
        raise ValueError(
            "parameters are sharded by FullyShardedDataParallel (FSDP1), which is not "
            "supported: shard the model by torch.distributed.fsdp.fully_shard (FSDP2)"
        )
    if any("ds_id" in vars(param) for param in params):
        raise ValueError(
            "parameters are sharded by DeepSpeed's ZeRO, which is not supported: shard "
            "the model by torch.distributed.fsdp.fully_shard (FSDP2)"
        )
    sharded: list[Any] = [param for param in params if is_sharded(param)]
    if not sharded:
        return
    if model is None or not sharded_modules([model]):
        raise ValueError(
            "parameters are sharded, but not by fully_shard of "
            f"{type(model).__name__}: tensor parallel is not supported; with FSDP2 "
            "give watch or Objective the outermost module that fully_shard was given"
        )
    if whole:
        raise ValueError(
            "a direction of your own would be made of each process's share of a tensor "
            "by itself: with fully_shard use AdamQLR or SGDQLR"
        )
    if len(sharded) < len(params):
        raise ValueError(
            f"{len(params) - len(sharded)} of {len(params)} parameters are not sharded "
            "(ignored_params of fully_shard), whose gradients nobody sums: shard them "
            "too, or freeze them"
        )


def refuse_unlike_processes(
    model: nn.Module,
    trained: list[Tensor],
    group: torch.distributed.ProcessGroup | None,
    device: torch.device,
) -> None:
    """Refuse processes of which each would step other parameters of one model.

    Args:
        model: that all have.
        trained: what this process's optimiser trains.
        group: the processes; `None` for one alone.
        device: on which they exchange numbers.
    """
    if group is None:
        return
    own = {id(param) for param in trained}
    found = zlib.crc32(bytes(id(param) in own for param in model.parameters()))
    least_and_most = torch.tensor([-found, found], dtype=torch.float64, device=device)
    torch.distributed.all_reduce(
        least_and_most, torch.distributed.ReduceOp.MAX, group=group
    )
    if bool(least_and_most.sum() != 0):
        raise ValueError(
            f"processes train different parameters of {type(model).__name__}, as "
            "ZeroRedundancyOptimizer hands them out, which is not supported: use the "
            "optimiser by itself, and to share its memory out shard the model by "
            "torch.distributed.fsdp.fully_shard (FSDP2)"
        )
