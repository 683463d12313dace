r"""Quadratic-model step sizes around any direction.

Here they are measured and moved; `adamqlr.step` has the method. What it remembers
lives in `param_groups`, since `load_state_dict` casts what belongs to a parameter to
its type; it is the same in every group.
"""

# pyright: reportPrivateImportUsage=false
# The operations on lists of tensors have no public names; torch.optim uses these.

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from adamqlr import step as method
from adamqlr.rules import Limit
from adamqlr.settings import Rule
from adamqlr.step import Look, Measurement, Memory, Proposal, StepInfo, Trial
from adamqlr.torch.arguments import (
    check_group,
    checked_closure,
    refuse_scaled_gradients,
    refuse_step_inside_forward,
)
from adamqlr.torch.curvature import Curvature, Probe
from adamqlr.torch.directions import Direction, adam, sgd
from adamqlr.torch.objective import Accumulated, Objective
from adamqlr.torch.point import Point, gradient
from adamqlr.torch.replay import move
from adamqlr.torch.scalars import inner_product, placed, scalar_dtype

Params = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
Hook = Callable[[list[Tensor]], Any]

# What the method's memory is called in a parameter group.
_MEMORY = tuple(f"memory_{name}" for name in Memory._fields)


class QLR(torch.optim.Optimizer):
    r"""Step to the minimum of a damped quadratic model along any direction.

    $$\alpha = \frac{g^\top d}{d^\top (C + \lambda I)\, d}, \qquad
      \theta \gets \theta - \alpha d$$

    `loss = optimizer.step(objective)` takes the gradient, looks along the direction,
    tries and makes the step, and returns the loss before it. `optimizer.info` says what
    it did. There is no learning rate; `lr` is a factor on $\alpha$ for schedulers.
    Gradients are released within the step; `clip` is where to look at them.

    Args:
        params: tensors, or groups of them. Groups may differ in `lr`, `weight_decay`
            and the direction's own settings.
        direction: makes $d$ out of gradients; see `Direction`.
        curvature: what $C$ is, and how $d^\top C d$ is measured.
        lr: multiplies $\alpha$, after its limits; schedulers write it. Groups with a
            smaller `lr` than others go so much less far.
        weight_decay: adds so much of the parameters to the gradients that make the
            direction; the slope stays that of the loss.
        rule: how the length is chosen; see `Rule`.
        clip: called with the parameters once they have their `grad`, which it may
            change: `lambda params: torch.nn.utils.clip_grad_norm_(params, 1.0)`. The
            slope stays that of the raw gradient, at the price of a copy of it.
        **options: settings of the direction, which groups may override.

    Example:
        >>> import torch
        >>> from adamqlr.torch import Gaussian, Objective, QLR
        >>> def sign(grads, params, states, group):
        ...     return [grad.sign() for grad in grads]
        >>> model, x = torch.nn.Linear(1, 1), torch.linspace(-1, 1, 8)[:, None]
        >>> optimizer = QLR(model.parameters(), sign)
        >>> for _ in range(20):
        ...     loss = optimizer.step(Objective(model, Gaussian(), x, 3 * x))
        >>> bool(loss < 0.1)
        True

    References:
        Clarke and Hernández-Lobato, *Studying K-FAC Heuristics by Viewing Adam through
        a Second-Order Lens*, 2024, algorithm 2 and equations 2 and 3.
    """

    # Makes `GradScaler` call `step` directly, where it is refused with the cure.
    _step_supports_amp_scaling = True

    def __init__(
        self,
        params: Params,
        direction: Direction,
        *,
        curvature: Curvature = Probe(),  # noqa: B008 - immutable
        rule: Rule = Rule(),  # noqa: B008 - immutable
        lr: float = 1.0,
        weight_decay: float = 0.0,
        clip: Hook | None = None,
        **options: Any,
    ):
        self.direction, self.curvature, self.rule = direction, curvature, rule
        self.clip = clip
        self._info: StepInfo | None = None
        memory = dict(zip(_MEMORY, method.begin(rule), strict=True))
        defaults = {"lr": lr, "weight_decay": weight_decay} | memory | options
        super().__init__(params, defaults)  # type: ignore[arg-type]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; what the method remembers is that of all groups."""
        check_group(self.defaults | param_group)
        first = self.param_groups[0] if self.param_groups else self.defaults
        memory = {name: first[name] for name in _MEMORY}
        super().add_param_group(param_group | memory)

    @property
    def info(self) -> StepInfo | None:
        """What the last step measured and did; reading it waits for the device."""
        if self._info is None or isinstance(self._info.rejected, bool):
            return self._info
        device = self._info.loss.device
        scalars = [placed(x, device) for x in self._info]
        info = StepInfo(*torch.stack(scalars).tolist())
        self._info = info._replace(
            limit=Limit(info.limit),
            rejected=bool(info.rejected),
            rejections=int(info.rejections),
        )
        return self._info

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Objective | Accumulated | Callable[[], Tensor] | None = None
    ) -> Tensor:
        """Make one step down the objective; returns its loss before the step.

        Args:
            closure: an `Objective`, or several `Accumulated`; with `Hessian`
                curvature also any function that returns the loss with its graph.
        """
        refuse_scaled_gradients(self)
        refuse_step_inside_forward()
        objective = checked_closure(closure)
        self.zero_grad()
        every = [param for group in self.param_groups for param in group["params"]]
        point = gradient(objective, [param for param in every if param.requires_grad])
        params, memory = point.params, self._recall(point.home)

        grads, updates = self._updates(params)
        # Clipping may have hidden what is not finite in the gradients themselves.
        made_of = [updates] if self.clip is None else [updates, grads]
        norms = point.agreed(*[inner_product(tensors, tensors) for tensors in made_of])
        # The step's one wait for the device: what is not finite may enter no memory.
        sound = bool(torch.stack([point.loss, *norms]).isfinite().all())
        if not sound:
            point.restore_buffers()
        direction = self._directions(params, updates) if sound else updates
        lr = self._even_out_rates(direction)
        products = inner_product(grads, direction), inner_product(direction, direction)
        slope, square_norm = point.agreed(*products)
        if self.direction not in (adam, sgd):  # These are finite if gradients are.
            sound = sound and bool(square_norm.isfinite())
        # Held no longer than needed, they do not add to what the look takes.
        del grads, updates
        for param in params:
            param.grad = None

        looked = sound and bool(method.is_due(self.rule, memory))
        look = Look(torch.full_like(slope, torch.nan))
        if looked:
            look = self.curvature.look(point, direction, memory.reach)
        measured = Measurement(
            loss=point.loss,
            slope=slope,
            square_norm=square_norm,
            curvature=look.curvature,
            looked=looked,
            sound=sound,
            rounding=4 * torch.finfo(scalar_dtype(params)).eps * abs(point.loss),
            batch=None if self.rule.budget is None else point.batch(),
        )
        proposal = method.propose(self.rule, memory, measured, lr)
        trial = look.trial
        if trial is None and looked and self.rule.damping is not None:
            trial = _tried(point, direction, proposal)
        memory, self._info = method.judge(self.rule, memory, measured, proposal, trial)
        if sound:
            move(params, direction, self._info.step_size)
        for group in self.param_groups:
            group.update(zip(_MEMORY, memory, strict=True))
        return point.loss.to(params[0].device, scalar_dtype(params))

    def _recall(self, device: torch.device) -> Memory:
        """What was remembered, or loaded, as scalars on the device; the count stays."""
        numbers = [self.param_groups[0][name] for name in _MEMORY]
        memory = Memory(*[placed(number, device) for number in numbers])
        return memory._replace(steps=int(self.param_groups[0]["memory_steps"]))

    def _members(self) -> Iterator[tuple[dict[str, Any], list[Tensor]]]:
        """Each group with those of its parameters that have a gradient."""
        for group in self.param_groups:
            members = [param for param in group["params"] if param.grad is not None]
            if members:
                yield group, members

    def _updates(self, params: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """The raw gradients, and what the direction is made of."""
        grads = [param.grad for param in params if param.grad is not None]
        if any(grad.is_sparse for grad in grads):
            raise ValueError("sparse gradients are not supported: use sparse=False")
        if self.clip is not None:
            grads = [grad.clone() for grad in grads]
            self.clip(params)
        updates: list[Tensor] = []
        for group, members in self._members():
            own = [param.grad for param in members if param.grad is not None]
            if group["weight_decay"] != 0:
                own = torch._foreach_add(own, members, alpha=group["weight_decay"])
            updates += own
        return grads, updates

    def _directions(self, params: list[Tensor], updates: list[Tensor]) -> list[Tensor]:
        update = {id(param): u for param, u in zip(params, updates, strict=True)}
        directions: list[Tensor] = []
        for group, members in self._members():
            own = [update[id(param)] for param in members]
            states = [self.state[param] for param in members]
            directions += self.direction(own, members, states, group)
        return directions

    def _even_out_rates(self, direction: list[Tensor]) -> float:
        """Shorten the direction where `lr` is below the largest, which is returned."""
        rates = [float(g["lr"]) for g, members in self._members() for _ in members]
        largest = max(rates)
        if largest > 0 and min(rates) < largest:
            torch._foreach_mul_(direction, [rate / largest for rate in rates])
        return largest


def _tried(point: Point, direction: list[Tensor], proposal: Proposal) -> Trial:
    """The loss where the step would end."""
    outputs = point.outputs_at(direction, proposal.step_size)
    (loss,) = point.means(point.loss_sums(outputs))
    return Trial(proposal.step_size, loss - point.loss)
