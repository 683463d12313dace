r"""Where a step starts: the objective at $\theta$, and how to look from there."""

# pyright: reportPrivateImportUsage=false
# The operations on lists of tensors have no public names; torch.optim uses these.

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves, tree_map

from adamqlr import rules
from adamqlr.measurements import Batch, Scale
from adamqlr.rules import Scalar, Truth
from adamqlr.torch.objective import (
    Accumulated,
    Closure,
    Objective,
    Tally,
    at_least_something,
    without_autocast,
)
from adamqlr.torch.replay import Start, shifted
from adamqlr.torch.scalars import (
    home,
    multiply,
    placed,
    scalar,
    scalar_dtype,
    scalars,
    total,
    wide,
)
from adamqlr.torch.sharding import drop_gathered, is_sharded, local, sharing_group

Part = Objective | Closure

# How far outputs may be from those of the same evaluation, over the largest: a GPU that
# tries algorithms, in a type of ten bits, need not choose the same one again.
_SAME_OUTPUTS = 1e-3


class Point:
    r"""An objective at the parameters $\theta$ at which a step takes its gradient.

    Sums over examples are gathered from all micro-batches and all processes before
    one division, so that every mean is that of the joined batch.

    Attributes:
        parts: the micro-batches.
        params: those that are trained.
        starts: the random state and buffers that each part's evaluation began with.
        outputs: the model's, of each part.
        examples: how many there are in all parts of this process.
        tally: what the means are over.
        home: the device of the parameters, where sums are.
        sharded: whether each process has a share of the parameters only.
        loss: $f(\theta)$, as a tensor in float64.
    """

    def __init__(
        self,
        parts: Iterable[Part],
        params: list[Tensor],
        starts: list[Start],
        outputs: list[Any],
        losses: list[Tensor],
        group: torch.distributed.ProcessGroup | None = None,
    ):
        self.parts, self.params = tuple(parts), params
        self.starts, self.outputs = starts, outputs
        self.examples = sum(values.numel() for values in losses)
        self.group = group or process_group(self.parts[0].model, params)
        self.sharded = any(map(is_sharded, params))
        self.home = home(params)
        tallies = [p.tally(v) for p, v in zip(self.parts, losses, strict=True)]
        counts = [sum(numbers) for numbers in zip(*tallies, strict=True)]
        if self.group is not None:
            own = [placed(count, self.home) for count in counts]
            counts = self._gathered(torch.stack(own))
        self.tally = Tally(*[scalar(count, self.home) for count in counts])
        sums = [p.sum(v) for p, v in zip(self.parts, losses, strict=True)]
        (self.loss,) = self._means(sums)

    def means(self, *sums: list[Tensor]) -> list[Scalar]:
        """Means of the whole batch from sums over each part."""
        return scalars(self._means(*sums))

    def _means(self, *sums: list[Tensor]) -> Tensor:
        """The same as one tensor, in float64."""
        dtype = scalar_dtype(self.params)
        each = [total([s.detach().to(self.home, dtype) for s in row]) for row in sums]
        count = at_least_something(self.tally.total)
        return wide(self._gathered(torch.stack(each))) / count

    def _gathered(self, own: Tensor) -> Tensor:
        if self.group is not None:
            own = wide(own)
            torch.distributed.all_reduce(own, group=self.group)
        return own

    def agreed(self, *values: Scalar) -> list[Scalar]:
        """Scalars that all processes have, the same to the last bit."""
        if self.group is None:
            return [scalar(value, self.home) for value in values]
        own = torch.stack([placed(value, self.home) for value in values])
        return scalars(self._gathered(own) / self.group.size())

    def whole(self, *products: Tensor) -> list[Scalar]:
        """Inner products of this process's numbers as those of all parameters."""
        if self.sharded:
            own = torch.stack([product.to(self.home) for product in products])
            return scalars(self._gathered(own))
        return self.agreed(*products)

    def refuse_shares(self, asking: str) -> None:
        """Refuse a derivative for which parameters must be whole."""
        if self.sharded:
            raise ValueError(
                f"{asking} needs whole parameters, and fully_shard has left each "
                "process a share: use Probe(), the default"
            )

    def batch(self) -> Batch:
        """What the likelihood says about the whole batch."""
        parts = [as_objective("Rule.budget", part) for part in self.parts]
        likelihood, targets = parts[0].likelihood, [part.targets for part in parts]
        least, chance = None, None
        if all(part.penalty is None for part in parts):  # Which may have any sign.
            least = likelihood.least(targets, self._average)
            chance = likelihood.chance(self.outputs[0])
        scale = likelihood.scale(self.loss, targets, self._average)
        known = lambda value: scalar(value, self.home)
        return Batch(
            examples=self._examples(),
            scale=None if scale is None else Scale(*map(known, scale)),
            least=None if least is None else known(least),
            chance=chance,
        )

    def _examples(self) -> Scalar:
        r"""How many examples a mean is over, $(\sum_i w_i)^2 / \sum_i w_i^2$.

        Their number without weights; of a mask, how many it keeps (Kish 1965): one
        at least, unless it keeps none.
        """
        total, squares = self.tally
        effective = rules.maximum(total * total / at_least_something(squares), 1.0)
        return rules.where(total == 0, 0.0, effective)

    def _average(self, values: list[Tensor]) -> Tensor:
        sums = [p.sum(v) for p, v in zip(self.parts, values, strict=True)]
        return self._means(sums)[0]

    def loss_sums(self, outputs: list[Any]) -> list[Tensor]:
        """Summed loss of each part, for `means`."""
        return [
            part.sum(part.losses(z))
            for part, z in zip(self.parts, outputs, strict=True)
        ]

    @torch.no_grad()
    def outputs_at(self, direction: list[Tensor], distance: Scalar) -> list[Any]:
        r"""The outputs at $\theta - h d$, of each part."""
        with shifted(self.params, direction, distance):
            outputs = self._replayed(self.parts)
        self.drop_gathered()
        return outputs

    def drop_gathered(self) -> None:
        """Let the next forward pass gather shares anew: they have changed."""
        if self.sharded:
            drop_gathered(self.parts[0].model)

    def _replayed(self, parts: Iterable[Part]) -> list[Any]:
        outputs = []
        for part, start in zip(parts, self.starts, strict=True):
            with start.again():
                # The wrapper is for gradients alone: it would broadcast buffers here.
                outputs.append(part.predict(_unwrapped(part.model)))  # type: ignore[arg-type]
        return outputs

    @torch.no_grad()
    def refuse_moved_params(self) -> None:
        """Refuse parameters that are no longer where the gradient was taken.

        Writing to them is no harm if they hold again what they held, as after an
        evaluation of an average: only then is the model evaluated once more.
        """
        if not any(start.has_other_params() for start in self.starts):
            return
        if not self._outputs_again():
            raise RuntimeError(
                "the parameters are not those of the forward pass any more, by "
                "the step of another optimiser or torch.func.functional_call: "
                "call this step() first, with all parameters of the model in one "
                "optimiser, as groups, if both are to measure their steps"
            )

    def refuse_unrepeatable(self) -> None:
        """Refuse a model that answers otherwise when it is called once more.

        A look would take that for the doing of the step.
        """
        if not self._outputs_again():
            model = self.parts[0].model
            name = "the closure" if model is None else type(model).__name__
            raise RuntimeError(
                f"{name} answers otherwise when it is called once more with the same "
                "parameters, inputs, buffers and seeds, so that no step can be "
                "measured. What it keeps from one call to the next, a hidden state in "
                "an attribute say, must be an input or a registered buffer; what it "
                "draws, by a generator of its own or from a data loader, must be drawn "
                "before"
            )

    @torch.no_grad()
    def _outputs_again(self) -> bool:
        """Whether another evaluation has the outputs of the first, near enough."""
        here, then = tree_leaves(self._replayed(self.parts)), tree_leaves(self.outputs)
        self.drop_gathered()
        unlike = []
        for z, before in zip(here, then, strict=True):
            near = max(torch.finfo(before.dtype).eps ** 0.5, _SAME_OUTPUTS)
            far = (z - before).abs().max() > near * before.abs().max()
            unlike.append(far.to(self.home))
        return not bool(torch.stack(unlike).any())

    def restore_buffers(self, unless: Truth) -> None:
        """Take back what the gradient's evaluation left in the model's buffers."""
        self.starts[0].restore_buffers(unless)

    @torch.no_grad()
    def part(self, every: int) -> Point:
        """The same point on each `every`-th example of each part."""
        parts = [as_objective("Subsampled", part).part(every) for part in self.parts]
        outputs = self._replayed(parts)
        losses = [part.losses(z) for part, z in zip(parts, outputs, strict=True)]
        return Point(parts, self.params, self.starts, outputs, losses, self.group)


def refuse_no_gradients(params: list[Tensor]) -> None:
    """Refuse a step of nothing.

    Args:
        params: those of the optimiser that have a gradient.
    """
    if not params:
        raise ValueError(
            "no parameter of the optimiser has a gradient of this objective: pass the "
            "parameters of its model, with requires_grad=True"
        )


def gradient(
    objective: Objective | Accumulated | Closure, params: list[Tensor]
) -> Point:
    r"""Fill the parameters' `grad` with $\nabla f$ and keep what a look needs."""
    starts, outputs, losses = [], [], []
    # Processes must agree on it before they know each other's examples.
    scale, alone = 1.0, process_group(objective.parts[0].model, params) is None
    for number, part in enumerate(objective.parts):
        last = number == len(objective.parts) - 1
        start = Start(part.model, params, part.inputs)
        starts.append(start)
        with torch.enable_grad(), _synchronised(part.model, last), start.noticing():
            predicted = part.predict(part.model)  # type: ignore[arg-type]
            start.refuse_changed_inputs()
            if number == 0 and any(param.grad is not None for param in params):
                raise RuntimeError(
                    "the closure called backward(), which step does itself: leave it "
                    "out; or call watch(model, loss) once to keep the loop as it is"
                )
            values = part.losses(predicted)
            if number == 0 and alone:
                scale = scalar(part.tally(values).total, values.device)
                scale = at_least_something(scale)
            with without_autocast(values.device.type):
                (part.sum(values) / scale).backward()
        outputs.append(tree_map(Tensor.detach, predicted))
        losses.append(values.detach())
    params = [param for param in params if param.grad is not None]
    refuse_no_gradients(params)
    point = Point(objective.parts, params, starts, outputs, losses)
    # So far the mean is over processes, and over the first part's examples at best.
    processes = 1 if point.group is None else point.group.size()
    factor = processes * scale / at_least_something(point.tally.total)
    multiply([local(p.grad) for p in params if p.grad is not None], factor)
    return point


def as_objective(asking: str, part: Any) -> Objective:
    """The objective that `asking` needs, or an error that says how to pass one."""
    if not isinstance(part, Objective):
        raise TypeError(
            f"{asking} needs the model's outputs, which a plain closure does not show: "
            "call step(Objective(model, likelihood, inputs, targets)), or use "
            "curvature=LossProbe() and rule=ANY_LOSS, which take any closure"
        )
    return part


def bare(model: nn.Module) -> nn.Module:
    """The module inside `DistributedDataParallel` and `torch.compile`."""
    while True:
        if isinstance(model, DistributedDataParallel):
            model = model.module
        elif _uncompiled(model) is not model:
            model = _uncompiled(model)
        else:
            return model


def _uncompiled(model: nn.Module) -> nn.Module:
    # By the name of its part: the class's own module takes seconds to import.
    inner = model._modules.get("_orig_mod")
    return model if inner is None else inner


def _unwrapped(model: nn.Module | None) -> nn.Module | None:
    return model.module if isinstance(model, DistributedDataParallel) else model


def _distributed(model: nn.Module | None) -> DistributedDataParallel | None:
    inner = None if model is None else _uncompiled(model)
    return inner if isinstance(inner, DistributedDataParallel) else None


def process_group(
    model: nn.Module | None, params: list[Tensor]
) -> torch.distributed.ProcessGroup | None:
    """The processes that make a step together; `None` if this one is alone."""
    wrapper = _distributed(model)
    return sharing_group(params) if wrapper is None else wrapper.process_group


def _synchronised(
    model: nn.Module | None, last: bool
) -> contextlib.AbstractContextManager[None]:
    """Processes exchange gradients once, after the last part's."""
    wrapper = _distributed(model)
    return contextlib.nullcontext() if last or wrapper is None else wrapper.no_sync()
