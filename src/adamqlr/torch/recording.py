"""What a training loop did before it calls `step()`, so that a step can do it again.

Forward hooks on the model see each pass: its inputs, its random state and its outputs.
The graph of the pass holds these, by reference, so that they live no longer than it
does. The gradient that `backward()` brings to the outputs tells the rest: how much the
pass weighs in the loop's loss, whatever the scale of that, and where no loss module is
watched also which class was the target. A loss that is not the one that the likelihood
stands for shows there, and is refused.
"""

# pyright: reportPrivateImportUsage=false
# The operations on lists of tensors have no public names; torch.optim uses these.

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.hooks import RemovableHandle

from adamqlr import rules
from adamqlr.rules import Scalar, where
from adamqlr.torch.likelihoods import Categorical, Likelihood
from adamqlr.torch.losses import as_likelihood
from adamqlr.torch.objective import (
    Arguments,
    Objective,
    Pick,
    as_they_are,
    at_least_something,
    picked,
)
from adamqlr.torch.passes import (
    Pass,
    Reached,
    View,
    at_the_end_of_backward,
    when_a_gradient_comes,
)
from adamqlr.torch.point import Point, refuse_no_gradients
from adamqlr.torch.replay import Start
from adamqlr.torch.scalars import inner_product, norms, scalar
from adamqlr.torch.sharding import is_sharded
from adamqlr.torch.taken import Doubts, Taken


class Recorder:
    """Remembers the forward passes of a model from one step to the next.

    Args:
        model: the module that the loop calls, or one that it calls inside.
        loss: a likelihood, or the very loss module of `torch.nn` that the loop calls.
        outputs: picks the outputs from what the model returns; see `Objective`.
        trained: says which parameters the loop takes gradients of.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Any,
        outputs: Pick,
        trained: Callable[[], list[Tensor]],
    ):
        self.model, self.loss, self.outputs = model, loss, outputs
        self.likelihood = _any_reduction(loss)
        self._trained = trained
        self._recording = True
        self._group: torch.distributed.ProcessGroup | None = None
        self._starts: list[tuple[Arguments, Start]] = []
        self._numbers = itertools.count()
        self._passes: weakref.WeakSet[Pass] = weakref.WeakSet()
        self._backward: int | None = None
        self.forget()
        before, after = _Listener(self._before), _Listener(self._after)
        hooks = [
            model.register_forward_pre_hook(before, with_kwargs=True),
            model.register_forward_hook(after, with_kwargs=True, always_call=True),
        ]
        if isinstance(loss, nn.Module):
            compare = _Listener(self._compare)
            hooks.append(loss.register_forward_pre_hook(compare, with_kwargs=True))
        # Called, it listens no more; as it does once the optimiser is gone.
        self.close = weakref.finalize(self, _remove, hooks)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Look away for a while: the step itself calls the model."""
        self._recording = False
        try:
            yield
        finally:
            self._recording = True

    def forget(self) -> None:
        """Let go of what `backward()` reached: the gradients are used, or gone."""
        self._reached: list[Reached] = []
        self._wrong: Exception | None = None
        self._left: Scalar | None = None
        self._norms: Tensor | None = None
        self._counts: list[tuple[int, int]] | None = None

    def point(self, params: list[Tensor]) -> tuple[Point, Taken]:
        """Where the loop took its gradients, and what is known of these.

        Args:
            params: those that have a gradient.
        """
        reached, then, left = self._reached, self._norms, self._left
        wrong = self._wrong
        self.forget()
        if wrong is not None:
            raise wrong
        if any(param.grad is not None for param in self.model.parameters()):
            refuse_no_gradients(params)
        if not reached or then is None or left is None:
            raise RuntimeError(
                "step() found no backward() through the outputs of "
                f"{type(self.model).__name__} since the last step: call "
                "loss.backward() first, on a loss of what the watched model returned "
                "(watch what torch.compile returned, if the loop calls that); or give "
                "step() an Objective"
            )
        # As the loop made them: `backward()` comes to the last one first.
        reached = sorted(reached, key=lambda made: made.number)
        parts, starts, outputs, losses, agreements, _, factors = map(
            list, zip(*reached, strict=True)
        )
        # If none counts anything, all are alike in that.
        some = sum(map(abs, factors))
        for number, (factor, z) in enumerate(zip(factors, outputs, strict=True)):
            factor = where(some == 0, 1.0, factor)
            parts[number] = parts[number].scaled(factor, z.device)
        for start in starts:
            start.refuse_changed_inputs()
        point = Point(parts, params, starts, outputs, losses, self._group)
        point.refuse_moved_params()
        processes = 1 if point.group is None else point.group.size()
        factor = processes / at_least_something(point.tally.total)
        return point, Taken(factor, then, functools.reduce(_smaller, agreements), left)

    def refuse(self, doubts: Doubts) -> None:
        """Refuse a loss or gradients that are not what a step takes them for."""
        doubts.refuse(self.loss, type(self.model).__name__)

    def _listens(self) -> bool:
        return self._recording and torch.is_grad_enabled()

    def _before(
        self, module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        if self._listens():
            inputs = Arguments(*as_they_are((args, named)))
            self._starts.append((inputs, Start(module, inputs=inputs)))

    def _after(
        self,
        module: nn.Module,
        args: tuple[Any, ...],
        named: dict[str, Any],
        returned: Any,
    ) -> None:
        if not self._listens() or not self._starts:
            return
        inputs, start = self._starts.pop()
        if returned is None:  # The pass ended with an error.
            return
        outputs = self._picked(returned)
        if not isinstance(outputs, Tensor):
            raise TypeError(
                f"a watched model must return one tensor of outputs, got several in a "
                f"{type(returned).__name__}: pass watch(..., outputs=...) which of "
                "them the loss takes; for several give step() an Objective with Heads"
            )
        if not outputs.requires_grad:
            return
        wrapper = DistributedDataParallel._get_active_ddp_module()
        if isinstance(wrapper, DistributedDataParallel):
            self._group = wrapper.process_group
        made = Pass(
            next(self._numbers),
            inputs,
            start,
            outputs.detach(),
            outputs._version,
        )
        self._passes.add(made)
        when_a_gradient_comes(outputs, lambda grad: self._receive(made, grad))

    def _picked(self, returned: Any) -> Any:
        """The outputs; of logits and a loss, as some models return, the logits."""
        if self.outputs is None and isinstance(returned, tuple):
            with_examples = [x for x in returned if isinstance(x, Tensor) and x.ndim]
            returned = with_examples[0] if len(with_examples) == 1 else returned
        return picked(self.outputs, returned)

    def _compare(
        self, module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        """Keep the targets with the pass whose outputs the loss sees."""
        if not self._listens():
            return
        given = dict(zip(("input", "target"), args, strict=False)) | named
        seen, targets = given["input"], given["target"]
        if not seen.requires_grad:  # A number for the logs, of detached outputs.
            return
        for made in self._passes:
            view = View.between(made.outputs, seen)
            if view is not None:
                made.view, made.targets = view, targets

    def _receive(self, made: Pass, grad: Tensor) -> None:
        """Take up a pass whose outputs a gradient has reached.

        What is wrong with it is for the step to say: there need not be one, if the loss
        is another optimiser's that trains through this model.
        """
        self._begin()
        try:
            self._reached.append(self._objective(made, grad))
        except (ValueError, RuntimeError) as error:
            self._wrong = error.with_traceback(None)  # Which would hold the graph.

    def _objective(self, made: Pass, grad: Tensor) -> Reached:
        """What a pass is a part of, by the gradient of its outputs."""
        if made.reached:
            raise RuntimeError(
                "backward() reached one forward pass twice, and what each brought "
                "cannot be told apart: add the losses and call backward() once. If it "
                "was torch.autograd.grad before it, of a penalty on gradients say, "
                "give step() an Objective with that penalty"
            )
        if made.outputs._version != made.version:
            raise RuntimeError(
                f"the outputs of {type(self.model).__name__} were changed in place, "
                "which a step cannot repeat: change a copy, or do it in the model"
            )
        made.reached = True
        # Of a model that casts by itself only this shows it.
        made.start.computed.add(grad.dtype)
        part, outputs, grad = self._part(made, grad)
        with torch.enable_grad():
            z = outputs.detach().requires_grad_()
            losses = part.losses(z)
            (own,) = torch.autograd.grad(part.sum(losses), z)
        with torch.no_grad():
            products = ((grad, own), (own, own), (grad, grad))
            both, ours, theirs = [
                scalar(inner_product([a], [b]), grad.device) for a, b in products
            ]
            silent = (ours == 0) | (theirs == 0)
            factor = where(ours == 0, 1.0, rules.quotient(both, ours))
            # A probability near one, rounded, is all that a gradient may hold of it.
            rounding = factor * torch.finfo(grad.dtype).eps
            squares = scalar(part.tally(losses).squares, grad.device)
            rounded = rounding * rounding * squares
            apart = theirs - both * factor
            silent = silent | ((both > 0) & (apart <= rounded))
            lengths = rules.raised(ours * theirs, 0.5)
            agreement = where(silent, 1.0, rules.quotient(both, lengths))
        return Reached(
            part, made.start, outputs, losses.detach(), agreement, made.number, factor
        )

    @torch.no_grad()
    def _begin(self) -> None:
        """At the first pass of each `backward()`, see what gradients are there."""
        backward = torch._C._current_graph_task_id()
        if backward == self._backward:
            return
        self._backward = backward
        grads = self._grads()
        if not grads:  # If there were any for passes before, the loop dropped them.
            self.forget()
        elif self._counts is not None and self._counts != _versions(grads):
            self._notice_change(grads)
        if self._left is None:
            self._left = norms(grads).sum() if grads else 0.0
        known, wrong, versions = len(self._reached), self._wrong, _versions(grads)

        @torch.no_grad()
        def measure() -> None:
            """Keep the length of the gradient, before the loop clips it."""
            now = self._grads()
            # Shares do not count: fully_shard writes to what they hold.
            shared = any(map(is_sharded, now))
            if shared or _versions(now) != versions:
                self._norms = norms(now)
                self._counts = None if shared else _versions(now)
            else:  # Only torch.autograd.grad, by the inputs say, changes none.
                del self._reached[known:]
                self._wrong = wrong

        at_the_end_of_backward(measure)

    def _notice_change(self, grads: list[Tensor]) -> None:
        """Between two calls of `backward()`, somebody wrote to the gradients.

        If they are zero now, it is another batch that begins. Otherwise what was added
        up is no longer the gradient of the passes that are known.
        """
        now = norms(grads)
        if not bool(now.any()):
            self.forget()
        elif self._norms is None or not torch.allclose(now, self._norms, rtol=1e-5):
            self._wrong = RuntimeError(
                "the gradients were changed between two backward() of one step, "
                "clipped say, so that they are not those of the accumulated loss: do "
                "that once, after the last backward() and before step()"
            )

    def _grads(self) -> list[Tensor]:
        return [param.grad for param in self._trained() if param.grad is not None]

    def _part(self, made: Pass, grad: Tensor) -> tuple[Objective, Tensor, Tensor]:
        """A pass as an objective, its outputs and the loop's gradient by these."""
        outputs, view, kept = made.outputs, made.view, None
        likelihood, pick = self.likelihood, self._picked
        if view is None:
            likelihood = self._readable(outputs.ndim)
            targets, kept = likelihood.targets_from(outputs, grad)
        else:
            targets = made.targets
            if not view.plain:  # It may have come in another layout than theirs.
                empty = grad.new_empty_strided(outputs.shape, outputs.stride())
                grad = view.of(empty.copy_(grad))
            outputs = view.of(outputs)
            pick = lambda returned: view.of(self._picked(returned))
        part = Objective(
            self.model, likelihood, made.inputs, targets, kept, outputs=pick
        )
        return part, outputs, grad

    def _readable(self, ndim: int) -> Likelihood:
        """The likelihood, where no loss module has been seen to take the outputs.

        Args:
            ndim: axes of the outputs, which tell where a loss of torch has the classes.
        """
        if self.likelihood is self.loss:
            return self.likelihood
        if isinstance(self.likelihood, Categorical):
            # Of images they are where torch has them. Tokens, which loops flatten or
            # copy in slices, have them last.
            axis = 1 if ndim > 3 else -1
            return dataclasses.replace(self.likelihood, class_axis=axis)
        if isinstance(self.loss, nn.Module):
            raise ValueError(
                f"the watched {type(self.loss).__name__} was not called with the "
                f"outputs of {type(self.model).__name__}: give it what the model "
                "returns or a view of that, no copy; or give step() an Objective"
            )
        return self.likelihood


class _Listener:
    """A hook that does not keep its recorder, and as a copy has none.

    Models are copied with their hooks. The copy is nobody's to train.

    Args:
        method: of a recorder, to call as long as there is one.
    """

    def __init__(self, method: Callable[..., None] | None = None):
        self._method = None if method is None else weakref.WeakMethod(method)

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return _Listener, ()

    @torch._disable_dynamo  # In a compiled loop, too, it is to see the tensors.
    def __call__(self, *given: Any) -> None:
        method = None if self._method is None else self._method()
        if method is not None:
            method(*given)


def _remove(hooks: list[RemovableHandle]) -> None:
    for hook in hooks:
        hook.remove()


def _versions(grads: list[Tensor]) -> list[tuple[int, int]]:
    """Which gradients there are, and how often each was changed."""
    return [(id(grad), grad._version) for grad in grads]


def _any_reduction(loss: Any) -> Likelihood:
    """The likelihood of a loss; a sum is as good as a mean where a factor is read."""
    if isinstance(loss, nn.Module) and getattr(loss, "reduction", None) == "sum":
        loss = copy.copy(loss)
        loss.reduction = "mean"
    return as_likelihood(loss)


def _smaller(a: Scalar, b: Scalar) -> Scalar:
    """The smaller of two scalars; NaN if either is."""
    return -rules.maximum(-a, -b)
