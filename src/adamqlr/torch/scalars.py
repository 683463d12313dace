"""The method's scalars in torch: how to select one, their type, inner products.

They stay on the device of the parameters, in float64, so that a step need not wait for
the device to know them.
"""

# pyright: reportPrivateImportUsage=false
# The operations on lists of tensors have no public names; torch.optim uses these.

from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors

from adamqlr import rules
from adamqlr.rules import Scalar
from adamqlr.torch.sharding import local

rules.where.register(torch.Tensor, torch.where)

# Below this size the call costs more than the arithmetic: join such tensors first.
SMALL = 4096


def scalar_dtype(tensors: Iterable[Tensor]) -> torch.dtype:
    """The type of losses and sums: as wide as the parameters, float32 at least."""
    dtype = torch.float32
    for other in {tensor.dtype for tensor in tensors}:
        dtype = torch.promote_types(dtype, other)
    return dtype


def home(tensors: Iterable[Tensor]) -> torch.device:
    """Where the scalars of a step live: the parameters' device, if they have one."""
    devices = {tensor.device for tensor in tensors}
    return devices.pop() if len(devices) == 1 else torch.device("cpu")


def placed(value: Scalar, device: torch.device) -> Tensor:
    """A number or a scalar on the device, in float64 where that has it."""
    dtype = torch.float32 if device.type == "mps" else torch.float64
    if isinstance(value, Tensor):
        return value.to(device, dtype)
    # Written there, not copied: for a copy the host would wait.
    return torch.full((), value, dtype=dtype, device=device)


def wide(value: Tensor) -> Tensor:
    """A tensor in float64, where its device has that."""
    return placed(value, value.device)


def inner_product(a: list[Tensor], b: list[Tensor]) -> Tensor:
    """Sum of products over two lists, in `scalar_dtype` also for bfloat16 tensors.

    Of tensors that are shared with other processes, of this one's numbers.
    """
    found = products(a, b)
    return total(found) if found else torch.zeros((), dtype=scalar_dtype(a))


def products(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
    """What `inner_product` is the sum of; few, since small tensors are joined."""
    dtype = scalar_dtype(a)
    lists = _joined_alike(a) * 2 if a is b else _joined_alike(a, b)
    pairs = zip(*lists, strict=True)
    return [
        torch.dot(x.reshape(-1).to(dtype), y.reshape(-1).to(dtype)) for x, y in pairs
    ]


def total(scalars: list[Tensor]) -> Tensor:
    """The sum of scalars on any devices, where their `home` is."""
    device = home(scalars)
    return torch.stack([scalar.to(device) for scalar in scalars]).sum()


def norms(tensors: list[Tensor]) -> Tensor:
    """The sum of magnitudes, and of squares, of all numbers in a list of tensors."""
    (few,) = _joined_alike(tensors)
    if not few:
        return torch.zeros(2)
    magnitudes = torch.stack(
        [norm.to(few[0].device) for norm in torch._foreach_norm(few, 1)]
    )
    squares = inner_product(few, few).to(few[0].device)
    return torch.stack([wide(magnitudes).sum(), wide(squares)])


def _joined_alike(*lists: list[Tensor]) -> list[list[Tensor]]:
    """This process's numbers of each list in few tensors: small ones are joined."""
    own = [[local(tensor) for tensor in tensors] for tensors in lists]
    large, small = [], defaultdict(list)
    for place, tensor in enumerate(own[0]):
        if tensor.numel() > SMALL:
            large.append(place)
        else:
            small[tensor.dtype, tensor.device].append(place)
    return [
        [tensors[place] for place in large]
        + [_flatten_dense_tensors([tensors[p] for p in ps]) for ps in small.values()]
        for tensors in own
    ]
