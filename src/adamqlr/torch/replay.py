"""The same evaluation again: same random numbers, same buffers, none of them spent.

A step evaluates the model up to three times. All must see one dropout mask and one set
of batch-norm statistics, and only the gradient's forward pass may leave a trace. What
else it saw, inputs and parameters, is not copied: tensors count their changes.
"""

# pyright: reportPrivateImportUsage=false
# The operations on lists of tensors have no public names; torch.optim uses these.

import contextlib
import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves

from adamqlr.rules import Scalar, Truth
from adamqlr.torch.scalars import like
from adamqlr.torch.sharding import gathered_types, is_sharded, local, sharded_modules


class Start:
    """What an evaluation starts from: random state, buffers, modes, autocast.

    Args:
        model: that is evaluated; `None` for a closure, whose modules `noticing` finds.
        params: that are trained, on the devices of the closure's random numbers.
        inputs: of the evaluation, where they are known.

    Attributes:
        computed: types in which it computes besides those of the parameters.
    """

    def __init__(
        self,
        model: nn.Module | None,
        params: Iterable[Tensor] = (),
        inputs: Any = None,
    ):
        self.model = model
        modules = _modules(model)
        tensors = list(params) if model is None else _parameters(modules)
        given = [leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor)]
        self._inputs = _versions(given)
        # Of sharded ones others are in place inside the forward pass than outside, and
        # lazy ones are made by the first.
        shards = sharded_modules(modules)
        changing = bool(shards) or any(map(is_lazy, tensors))
        self._params = None if changing or model is None else _versions(tensors)
        self._modes = _modes(modules)
        devices = {tensor.device for tensor in tensors}
        kinds = {"cpu", *[device.type for device in devices]} - {"meta"}
        self.casts = {kind: _autocast_dtype(kind) for kind in sorted(kinds)}
        self.computed = {dtype for dtype in self.casts.values() if dtype is not None}
        self.computed |= gathered_types(shards)
        self.devices = sorted(
            [d for d in devices if d.type not in ("cpu", "meta")], key=str
        )
        self.random = _RandomStates.now(self.devices)
        self.buffers = _buffers(modules)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Start from here for a while, then leave all as it was found."""
        found, buffers = _RandomStates.now(self.devices), _as_they_are(self.buffers)
        modes = _modes([module for module, _ in self._modes])
        try:
            self.random.set(self.devices)
            _set_buffers(self.buffers)
            _set_modes(self._modes)
            with contextlib.ExitStack() as stack:
                for kind, dtype in self.casts.items():
                    if dtype != _autocast_dtype(kind):
                        cast = torch.autocast(kind, dtype, enabled=dtype is not None)
                        stack.enter_context(cast)
                yield
        finally:
            found.set(self.devices)
            _set_buffers(buffers)
            _set_modes(modes)

    def refuse_changed_inputs(self) -> None:
        """Refuse to begin again with inputs that are no longer what they were."""
        if any(tensor._version != version for tensor, version in self._inputs):
            raise RuntimeError(
                f"the inputs of {type(self.model).__name__} were changed in place, by "
                "itself or since its forward pass, which a step cannot repeat: change "
                "a copy, or call step() before"
            )

    def has_other_params(self) -> bool:
        """Whether somebody has written to the parameters, or put others in place."""
        if self._params is None or self.model is None:
            return False
        now = _versions(_parameters(_modules(self.model)))
        return len(now) != len(self._params) or any(
            param is not known or version != before
            for (param, version), (known, before) in zip(now, self._params, strict=True)
        )

    @contextlib.contextmanager
    def noticing(self) -> Iterator[None]:
        """Keep buffers of modules that are called inside, where no model is known."""
        if self.model is not None:
            yield
            return
        known: set[int] = set()

        def before(module: nn.Module, _: Any) -> None:
            new = [entry for entry in _buffers([module]) if id(entry[2]) not in known]
            known.update(id(entry[2]) for entry in new)
            self.buffers += new

        hook = register_module_forward_pre_hook(before)
        try:
            yield
        finally:
            hook.remove()

    @torch.no_grad()
    def restore_buffers(self, unless: Truth) -> None:
        """Take back what the evaluation left in the model's buffers.

        Args:
            unless: what it left is to stay; may be a tensor.
        """
        if isinstance(unless, Tensor) and all(map(_can_be_chosen, self.buffers)):
            for *_, buffer, contents in self.buffers:
                torch.where(unless.to(buffer.device), buffer, contents, out=buffer)
        elif not unless:  # Of a tensor, the host waits to know it.
            _set_buffers(self.buffers)


def _autocast_dtype(kind: str) -> torch.dtype | None:
    """The type in which autocast computes on a kind of device; `None` if it is off."""
    available = torch.amp.is_autocast_available(kind)
    enabled = available and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if enabled else None


def _modules(model: nn.Module | None) -> list[nn.Module]:
    return [] if model is None else list(model.modules())


def _parameters(modules: list[nn.Module]) -> list[Tensor]:
    """Their parameters; to name them, as their own method does, takes far longer."""
    every = [param for module in modules for param in module._parameters.values()]
    return [param for param in every if param is not None]


def _versions(tensors: list[Tensor]) -> list[tuple[Tensor, int]]:
    """How often each was changed in place; those of inference mode do not count."""
    return [(t, t._version) for t in tensors if not t.is_inference()]


def _modes(modules: list[nn.Module]) -> list[tuple[nn.Module, bool]]:
    return [(module, module.training) for module in modules]


def _set_modes(modes: list[tuple[nn.Module, bool]]) -> None:
    for module, training in modes:
        module.training = training


_Buffer = tuple[nn.Module, str, Tensor, Tensor]


def _buffers(modules: list[nn.Module]) -> list[_Buffer]:
    """Each buffer's owner, name, tensor and a copy of its contents."""
    return [
        (module, name, buffer, buffer.detach().clone())
        for module in modules
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]


def _as_they_are(buffers: list[_Buffer]) -> list[_Buffer]:
    """The same buffers with what they hold now."""
    now = [(module, name, getattr(module, name)) for module, name, *_ in buffers]
    return [(m, name, buffer, buffer.detach().clone()) for m, name, buffer in now]


def _can_be_chosen(entry: _Buffer) -> bool:
    """Whether a buffer holds numbers still, of which the device can choose some."""
    module, name, buffer, _ = entry
    return getattr(module, name) is buffer and buffer.layout == torch.strided


@torch.no_grad()
def _set_buffers(buffers: list[_Buffer]) -> None:
    for module, name, buffer, contents in buffers:
        buffer.copy_(contents)
        # Where a module has put another tensor in its place, put this one back.
        if getattr(module, name) is not buffer:
            setattr(module, name, buffer)


class _RandomStates(NamedTuple):
    """Of torch, Python and NumPy: layers are dropped by any of them.

    Attributes:
        tensors: of torch, on the CPU and on other devices.
        python: of its module `random`.
        numpy: of `numpy.random`; `None` where nobody has imported it.
    """

    tensors: list[Tensor]
    python: Any
    numpy: Any

    @classmethod
    def now(cls, devices: list[torch.device]) -> "_RandomStates":
        states = [torch.get_device_module(d).get_rng_state(d) for d in devices]
        numpy = sys.modules.get("numpy.random")
        return cls(
            [torch.get_rng_state(), *states],
            random.getstate(),
            None if numpy is None else numpy.get_state(),
        )

    def set(self, devices: list[torch.device]) -> None:
        torch.set_rng_state(self.tensors[0])
        for device, state in zip(devices, self.tensors[1:], strict=True):
            torch.get_device_module(device).set_rng_state(state, device)
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy.random"].set_state(self.numpy)


@contextlib.contextmanager
def shifted(
    params: list[Tensor], direction: list[Tensor], distance: Scalar
) -> Iterator[None]:
    r"""Have the parameters at $\theta - h d$ for a while, then bit for bit at $\theta$.

    The parameters stay the objects that compiled and wrapped models, hooks and custom
    kernels know; what they hold is exchanged, which spares a copy there and one back.
    Of shares, which are gathered from where they are, the numbers are.
    """
    with torch.no_grad():
        exchange = _copy if any(map(is_sharded, params)) else _exchange
        kept = [local(param.data) for param in params]
        there = torch._foreach_mul(direction, -distance)
        torch._foreach_add_(there, kept)
        if exchange is _copy:
            kept = [tensor.clone() for tensor in kept]
        try:
            exchange(params, list(there))
            yield
        finally:
            exchange(params, kept)


def _exchange(params: list[Tensor], contents: list[Tensor]) -> None:
    for param, content in zip(params, contents, strict=True):
        param.data = content
    # Autocast keeps copies of the parameters, which it believes not to change.
    torch.clear_autocast_cache()


def _copy(params: list[Tensor], contents: list[Tensor]) -> None:
    torch._foreach_copy_([local(param) for param in params], contents)
    torch.clear_autocast_cache()


@torch.no_grad()
def move(weights: list[Tensor], along: list[Tensor], step_size: Scalar) -> None:
    r"""Move parameters by $-\alpha d$ in place."""
    back = like(-step_size, weights)
    for weight, way, length in zip(weights, along, back, strict=True):
        weight.addcmul_(way, length)
    torch.clear_autocast_cache()
