"""Batch norm's statistics for weights other than those they were gathered with."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._pytree import tree_map


@contextlib.contextmanager
def measured(model: nn.Module, batches: Iterable[Any]) -> Iterator[None]:
    """Have statistics of the weights that the model holds, and then the former ones.

    Only the norms compute as in training, so that what they see is what an evaluation
    does: dropout is off, and no other module gathers anything.

    Args:
        model: whose modes stay as they are.
        batches: see `QLR.averaged`.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    norms = [norm for norm in norms if norm.running_mean is not None]
    if model.training:  # A norm that does not train with the rest is a frozen one.
        norms = [norm for norm in norms if norm.training]
    kept = [(b, b.clone()) for norm in norms for b in norm.buffers(recurse=False)]
    try:
        if norms:
            _measure(model, norms, batches)
        yield
    finally:
        for buffer, contents in kept:
            buffer.copy_(contents)


@torch.no_grad()
def _measure(model: nn.Module, norms: list[_BatchNorm], batches: Iterable[Any]) -> None:
    """Let the norms hold plain means over all batches."""
    modes = [(module, module.training) for module in model.modules()]
    momenta = [(norm, norm.momentum) for norm in norms]
    device, count = next(model.parameters()).device, 0
    try:
        model.eval()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum, norm.training = None, True  # a mean over all of them
        for batch in batches:
            count += 1
            _evaluate(model, tree_map(lambda leaf: _placed(leaf, device), batch))
    finally:
        for norm, momentum in momenta:
            norm.momentum = momentum
        for module, training in modes:
            module.training = training
    if not count:
        raise ValueError(
            "batches has none, so that no statistics could be measured: pass a list or "
            "a data loader, which can be gone through again, and not a generator"
        )


def _evaluate(model: nn.Module, batch: Any) -> None:
    if isinstance(batch, Mapping):
        model(**batch)
    else:
        model(batch[0] if isinstance(batch, tuple | list) else batch)


def _placed(leaf: Any, device: torch.device) -> Any:
    return leaf.to(device) if isinstance(leaf, Tensor) else leaf
