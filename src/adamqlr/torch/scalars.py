"""The method's scalars in torch: how to select one, their type, inner products.

They stay on the device of the parameters, in float64, so that a step need not wait for
the device to know them.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from adamqlr import rules
from adamqlr.rules import Scalar

rules.where.register(torch.Tensor, torch.where)

# Below this size the call costs more than the arithmetic: join such tensors first.
_SMALL = 4096


def scalar_dtype(tensors: Iterable[Tensor]) -> torch.dtype:
    """The type of losses and sums: as wide as the parameters, float32 at least."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def home(tensors: Iterable[Tensor]) -> torch.device:
    """Where the scalars of a step live: the parameters' device, if they have one."""
    devices = {tensor.device for tensor in tensors}
    return devices.pop() if len(devices) == 1 else torch.device("cpu")


def placed(value: Scalar, device: torch.device) -> Tensor:
    """A number or a scalar on the device, in float64 where that has it."""
    dtype = torch.float32 if device.type == "mps" else torch.float64
    return torch.as_tensor(value, dtype=dtype, device=device)


def wide(value: Tensor) -> Tensor:
    """A tensor in float64, where its device has that."""
    return placed(value, value.device)


def inner_product(a: list[Tensor], b: list[Tensor]) -> Tensor:
    """Sum of products over two lists, in `scalar_dtype` also for bfloat16 tensors."""
    dtype, device = scalar_dtype(a), home(a)
    pairs = [(x.reshape(-1), y.reshape(-1)) for x, y in zip(a, b, strict=True)]
    joined = [pair for pair in pairs if pair[0].numel() <= _SMALL]
    pairs = [pair for pair in pairs if pair[0].numel() > _SMALL]
    if joined and len({x.device for x, _ in joined}) == 1:
        xs, ys = zip(*joined, strict=True)
        joined = [(torch.cat(xs), torch.cat(ys))]
    products = [torch.dot(x.to(dtype), y.to(dtype)) for x, y in pairs + joined]
    if not products:
        return torch.zeros((), dtype=dtype)
    return torch.stack([product.to(device) for product in products]).sum()
