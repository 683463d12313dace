"""A forward pass as its graph keeps it, and what `backward()` says about it."""

# pyright: reportPrivateImportUsage=false
# The operations on lists of tensors have no public names; torch.optim uses these.

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from adamqlr.rules import Scalar
from adamqlr.torch.objective import Arguments, Objective
from adamqlr.torch.replay import Start


class View(NamedTuple):
    """How the loop's loss saw the outputs: reshaped, sliced or with axes exchanged.

    Attributes:
        source: shape of the outputs that it is a view of.
        plain: whether it is all of them, as they are.
    """

    shape: torch.Size
    stride: tuple[int, ...]
    offset: int
    source: torch.Size
    plain: bool

    @classmethod
    def between(cls, outputs: Tensor, seen: Tensor) -> View | None:
        """The view of the outputs that another tensor is; `None` if it is none."""
        same_memory = outputs.untyped_storage()._cdata == seen.untyped_storage()._cdata
        if not same_memory or outputs.dtype != seen.dtype:
            return None
        offset = int(seen.storage_offset() - outputs.storage_offset())
        layouts = [(tensor.shape, tensor.stride()) for tensor in (outputs, seen)]
        plain = layouts[0] == layouts[1] and offset == 0
        return cls(seen.shape, seen.stride(), offset, outputs.shape, plain)

    def of(self, outputs: Tensor) -> Tensor:
        """The same view of other outputs, in the same layout."""
        if self.plain:
            return outputs
        if self.source != outputs.shape:
            raise ValueError(
                f"Subsampled cannot cut outputs that the loop gives its loss as "
                f"{tuple(self.shape)} in place of {tuple(self.source)}: use another "
                "curvature, or give step() an Objective"
            )
        offset = int(outputs.storage_offset()) + self.offset
        return outputs.as_strided(self.shape, self.stride, offset)


@dataclasses.dataclass(eq=False)
class Pass:
    """A forward pass of the model, held by its graph until a gradient comes.

    Attributes:
        number: of the pass, among those of its model.
        version: of the outputs, which an operation in place would raise.
        view: how the watched loss module saw the outputs.
        targets: what that compared them with.
        reached: whether `backward()` has.
    """

    number: int
    inputs: Arguments
    start: Start
    outputs: Tensor
    version: int
    view: View | None = None
    targets: Any = None
    reached: bool = False


class Reached(NamedTuple):
    """A pass that `backward()` reached, as part of an objective.

    Attributes:
        losses: of its examples.
        agreement: see `taken.Doubts`.
        number: of the pass.
        factor: what the loop has multiplied its loss by; zero, as a weight that grows
            in the course of training begins, lets it count nothing.
    """

    objective: Objective
    start: Start
    outputs: Tensor
    losses: Tensor
    agreement: Scalar
    number: int
    factor: Scalar


def when_a_gradient_comes(outputs: Tensor, receive: Callable[[Tensor], None]) -> None:
    """Call a function with the gradient that `backward()` brings to the outputs.

    Wrappers hand out copies in another precision, of which a loss that the model makes
    itself knows nothing: what they are copies of is where gradients arrive.
    """
    node, number = outputs.grad_fn, outputs.output_nr
    while node is not None and node.name() == "ToCopyBackward0":
        node, number = node.next_functions[0]
    assert node is not None, "outputs that require a gradient have a graph"

    def arrived(grads: tuple[Tensor | None, ...]) -> None:
        grad = grads[number]
        if grad is not None:
            receive(grad)

    node.register_prehook(arrived)


def at_the_end_of_backward(function: Callable[[], None]) -> None:
    """Call a function once all gradients are there, those of other processes too."""
    queue = torch.autograd.Variable._execution_engine.queue_callback
    # What wrappers do at the end is in the queue by the time that the outer one runs.
    queue(lambda: queue(function))
