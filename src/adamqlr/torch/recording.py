"""What a training loop did before it calls `step()`, so that a step can do it again.

Forward hooks on the model remember each pass that leads to a `backward()`: its inputs,
its random state and its outputs, by reference. The gradient that `backward()` brings to
the outputs then tells the rest: how much each pass weighs in the loop's loss, whatever
the scale of that, and where no loss module was watched also which class was the target.
A loss that is not the one that the likelihood stands for shows there, and is refused.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from adamqlr.torch.losses import as_likelihood
from adamqlr.torch.objective import (
    Arguments,
    Objective,
    Pick,
    at_least_something,
    picked,
)
from adamqlr.torch.point import Point
from adamqlr.torch.replay import Start
from adamqlr.torch.scalars import inner_product, wide

# The cosine between the loop's gradient of the outputs and the likelihood's own below
# which the two are not the same loss. In bfloat16 equal ones have 0.9999.
_SAME_LOSS = 0.995


@dataclasses.dataclass
class Pass:
    """A forward pass of the model, and what `backward()` said about its outputs."""

    inputs: Arguments
    start: Start
    outputs: Tensor
    objective: Objective | None = None
    agreement: Tensor | None = None


class Recorder:
    """Remembers the forward passes of a model from one step to the next.

    Args:
        model: the module that the loop calls, or one that it calls inside.
        loss: a likelihood, or the very loss module of `torch.nn` that the loop calls.
        outputs: picks the outputs from what the model returns; see `Objective`.
        params: those whose gradients the loop takes.
    """

    def __init__(
        self, model: nn.Module, loss: Any, outputs: Pick, params: list[Tensor]
    ):
        self.model, self.loss, self.outputs = model, loss, outputs
        self.likelihood = as_likelihood(loss)
        self.group: torch.distributed.ProcessGroup | None = None
        self._grad_norm: Tensor | None = None
        self._params = params
        self._recording = True
        self._starts: list[Start] = []
        self._passes: list[Pass] = []
        self._compared: list[tuple[Tensor, Any]] = []
        model.register_forward_pre_hook(self._before)
        model.register_forward_hook(self._after, with_kwargs=True, always_call=True)
        if isinstance(loss, nn.Module):
            loss.register_forward_pre_hook(self._compare)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Look away for a while: the step itself calls the model."""
        self._recording = False
        try:
            yield
        finally:
            self._recording = True

    def forget(self) -> None:
        """Let go of all passes: their step is made."""
        self._passes, self._compared, self._grad_norm = [], [], None

    def point(self, params: list[Tensor]) -> Point:
        """Where the loop took its gradients."""
        passes = [p for p in self._passes if p.objective is not None]
        if not passes:
            raise RuntimeError(
                "step() found no backward() through the outputs of "
                f"{type(self.model).__name__} since the last step: call "
                "loss.backward() first, on a loss of what the watched model returned, "
                "or give step() an Objective"
            )
        parts = [p.objective for p in passes if p.objective is not None]
        outputs = [p.outputs for p in passes]
        losses = [part.losses(z) for part, z in zip(parts, outputs, strict=True)]
        starts = [p.start for p in passes]
        return Point(parts, params, starts, outputs, losses, self.group)

    def stretch(self, point: Point, grad_norm: Tensor) -> Tensor:
        """What the loop's gradients are to be multiplied by, to be those of the mean.

        The loop's loss may be a sum, or a mean by its own count; and after
        `backward()` it may have clipped the gradients.

        Args:
            point: whose loss is the mean.
            grad_norm: square norm of the gradients as they are now.
        """
        assert self._grad_norm is not None, "backward() has ended"
        (before,) = point.agreed(self._grad_norm)
        clipped = torch.where(grad_norm == 0, 1, before / grad_norm).sqrt()
        processes = 1 if point.group is None else point.group.size()
        return clipped * processes / at_least_something(point.tally.total)

    def agreement(self) -> Tensor:
        """The least cosine of the loop's gradients and the likelihood's own."""
        found = [p.agreement for p in self._passes if p.agreement is not None]
        return torch.stack(found).min()

    def refuse_another_loss(self, agreement: float) -> None:
        """Refuse a loss that is not the one which the likelihood stands for."""
        if agreement < _SAME_LOSS:
            raise ValueError(
                f"the loss of the loop is not {self.loss!r} of the outputs of "
                f"{type(self.model).__name__}, times any factor: their gradients have "
                f"a cosine of {agreement:.3f}. Watch the loss that the loop uses, with "
                "all its options (label_smoothing, weight, ...), and the module whose "
                "outputs it takes; or give step() an Objective"
            )

    def _listens(self) -> bool:
        return self._recording and torch.is_grad_enabled()

    def _before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self._listens():
            self._starts.append(Start(module))

    def _after(
        self,
        module: nn.Module,
        args: tuple[Any, ...],
        named: dict[str, Any],
        returned: Any,
    ) -> None:
        if not self._listens():
            return
        start = self._starts.pop()
        if returned is None:  # The pass ended with an error.
            return
        outputs = self._picked(returned)
        if not isinstance(outputs, Tensor) or not outputs.requires_grad:
            return
        wrapper = DistributedDataParallel._get_active_ddp_module()
        if isinstance(wrapper, DistributedDataParallel):
            self.group = wrapper.process_group
        made = Pass(Arguments(args, named), start, outputs.detach())
        self._passes.append(made)
        _when_a_gradient_comes(outputs, lambda grad: self._receive(made, grad))

    def _picked(self, returned: Any) -> Any:
        """The outputs; of logits and a loss, as some models return, the logits."""
        if self.outputs is None and isinstance(returned, tuple):
            with_examples = [x for x in returned if isinstance(x, Tensor) and x.ndim]
            returned = with_examples[0] if len(with_examples) == 1 else returned
        return picked(self.outputs, returned)

    def _compare(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if self._listens() and len(args) > 1:
            self._compared.append((args[0].detach(), args[1]))

    def _receive(self, made: Pass, grad: Tensor) -> None:
        """Make an objective of a pass whose outputs a gradient has reached."""
        if made.objective is not None:
            raise RuntimeError(
                "backward() reached one forward pass twice, and what each brought "
                "cannot be told apart: add the losses and call backward() once"
            )
        shape, targets, weights = self._targets(made.outputs, grad)
        made.outputs, grad = made.outputs.reshape(shape), grad.reshape(shape)
        pick = lambda returned: self._picked(returned).reshape(shape)
        part = Objective(
            self.model, self.likelihood, made.inputs, targets, weights, outputs=pick
        )
        with torch.enable_grad():
            z = made.outputs.detach().requires_grad_()
            (own,) = torch.autograd.grad(part.sum(part.losses(z)), z)
        with torch.no_grad():
            products = ((grad, own), (own, own), (grad, grad))
            both, ours, theirs = [wide(inner_product([a], [b])) for a, b in products]
            silent = (ours == 0) | (theirs == 0)
            made.agreement = torch.where(silent, 1, both / (ours * theirs).sqrt())
            factor = torch.where(silent, 1, both / ours)
        made.objective = part.scaled(factor)
        _at_the_end_of_backward(self._measure)

    def _targets(
        self, outputs: Tensor, grad: Tensor
    ) -> tuple[torch.Size, Any, Tensor | None]:
        """The shape in which the loss saw the outputs, its targets, and a mask."""
        for number, (given, targets) in enumerate(self._compared):
            if given.data_ptr() == outputs.data_ptr():
                del self._compared[number]
                return given.shape, targets, None
        targets, kept = self.likelihood.targets_from(outputs, grad)
        return outputs.shape, targets, kept

    @torch.no_grad()
    def _measure(self) -> None:
        """Keep the length of the gradient, before the loop clips it."""
        grads = [param.grad for param in self._params if param.grad is not None]
        self._grad_norm = wide(inner_product(grads, grads))


def _when_a_gradient_comes(outputs: Tensor, receive: Callable[[Tensor], None]) -> None:
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


def _at_the_end_of_backward(function: Any) -> None:
    """Call a function once all gradients are there, those of other processes too."""
    queue = torch.autograd.Variable._execution_engine.queue_callback
    # What wrappers do at the end is in the queue by the time that the outer one runs.
    queue(lambda: queue(function))
