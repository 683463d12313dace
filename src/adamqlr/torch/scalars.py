"""The method's scalars in torch: what they are, how to select one, inner products.

On a CPU they are plain numbers, whose arithmetic takes far less time than that of
tensors. Elsewhere they stay on the device of the parameters, as tensors in float64, so
that a step need not wait for the device to know them.
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

rules.selected.register(torch.Tensor, torch.where)

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


def is_at_hand(device: torch.device) -> bool:
    """Whether numbers can be read from a device without waiting for it."""
    return device.type == "cpu"


def scalar(value: Scalar, device: torch.device) -> Scalar:
    """What the method computes with on a device: a plain number, or a tensor there.

    What is a plain number already stays one.
    """
    if not isinstance(value, Tensor):
        return value
    return float(value.item()) if is_at_hand(device) else placed(value, device)


def scalars(vector: Tensor) -> list[Scalar]:
    """All numbers of a vector as `scalar` makes them, read at once."""
    return vector.tolist() if is_at_hand(vector.device) else list(wide(vector))


def read(values: Iterable[Scalar]) -> list[float]:
    """Scalars as plain numbers; waits for their device, once, if they are on one."""
    values = list(values)
    devices = [value.device for value in values if isinstance(value, Tensor)]
    if not devices:
        return [float(value) for value in values]
    return torch.stack([placed(value, devices[0]) for value in values]).tolist()


def multiply(tensors: list[Tensor], factor: Scalar) -> None:
    """Multiply tensors in place; by a plain one, there is nothing to do."""
    if isinstance(factor, Tensor) or factor != 1:
        torch._foreach_mul_(tensors, factor)


def like(value: Scalar, tensors: list[Tensor]) -> list[Tensor]:
    """A scalar for each tensor, in its type and on its device."""
    kinds = {(tensor.device, tensor.dtype) for tensor in tensors}
    # Cast, since to write a number that the type cannot hold would be an error.
    cast = {kind: placed(value, kind[0]).to(kind[1]) for kind in kinds}
    return [cast[tensor.device, tensor.dtype] for tensor in tensors]


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
    lists = _joined_alike(a) if a is b else _joined_alike(a, b)
    return _dots(scalar_dtype(a), *lists)


def total(scalars: list[Tensor]) -> Tensor:
    """The sum of scalars on any devices, where their `home` is."""
    if len(scalars) == 1:
        return scalars[0]
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
    squares = total(_dots(scalar_dtype(few), few)).to(few[0].device)
    return torch.stack([wide(magnitudes).sum(), wide(squares)])


def _dots(
    dtype: torch.dtype, a: list[Tensor], b: list[Tensor] | None = None
) -> list[Tensor]:
    """Inner product of each tensor with its other, or with itself, one at a time."""
    flat = lambda tensor: tensor.reshape(-1).to(dtype)
    if b is None:
        return [torch.dot(x, x) for x in map(flat, a)]
    return [torch.dot(flat(x), flat(y)) for x, y in zip(a, b, strict=True)]


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
        + [_joined([tensors[place] for place in places]) for places in small.values()]
        for tensors in own
    ]


def _joined(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else _flatten_dense_tensors(tensors)
