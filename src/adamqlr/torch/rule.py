r"""Quadratic-model step sizes around any direction.

Scalars live in `param_groups`, since `load_state_dict` casts what belongs to a
parameter to its type; the rule's are the same in every group.
"""

# pyright: reportPrivateImportUsage=false
# The operations on lists of tensors have no public names; torch.optim uses these.

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from adamqlr import rules
from adamqlr.torch.arguments import (
    check_settings,
    checked_closure,
    refuse_scaled_gradients,
    refuse_step_inside_forward,
)
from adamqlr.torch.curvature import Curvature, Look, Probe
from adamqlr.torch.directions import Direction
from adamqlr.torch.memory import SEEN, Budget, Seen, budgeted, scalar
from adamqlr.torch.objective import Accumulated, Objective
from adamqlr.torch.point import (
    Point,
    gradient,
    inner_product,
    scalar_dtype,
)
from adamqlr.torch.replay import move
from adamqlr.torch.step import (
    Outcome,
    Proposal,
    StepInfo,
    next_damping,
    propose,
    seen_at_a_distance,
    seen_at_the_step,
)

Params = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
Hook = Callable[[list[Tensor]], Any]

# One value for all groups: the step is one, along all of them together.
_COMMON = (
    "damping",
    "damping_decrease",
    "damping_increase",
    "damping_floor",
    "rescale",
    "max_step_size",
    "kl_budget",
    "kl_decay",
    "curvature_decay",
    "ratio_every",
    "reach",
    "steps",
    "rejections",
    *SEEN,
)


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
        damping: initial $\lambda > 0$; `None` for no damping and no trial loss.
        damping_decrease: $\omega_\mathrm{dec}$ in (0, 1].
        damping_increase: $\omega_\mathrm{inc} \ge 1$.
        damping_floor: smallest $\lambda$.
        rescale: $k > 0$, multiplies $\alpha$ before its limits.
        max_step_size: limit on $|\alpha|$ after rescaling; `None` for no limit.
        kl_budget: $\kappa_0$, which limits the step's KL divergence, in nats for each
            example of the batch, to $\kappa_0 n^{-p}$, $n$ being the examples seen so
            far: $\alpha^2 d^\top C d \le 2\phi\, \kappa_0 n^{-p} |B|$, with $\phi$ the
            variance of targets that have units, one for others; `None` for no limit.
        kl_decay: $p$ in [0, 1]; zero for a budget that stays.
        curvature_decay: of the running mean of $d^\top C d / d^\top d$, below which no
            batch's curvature is taken; `None` for each batch's own.
        ratio_every: measure the reduction ratio, at the cost of a forward pass, only
            at each so many-th step. A probe's ratio is free and measured at each.
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
        lr: float = 1.0,
        weight_decay: float = 0.0,
        damping: float | None = 1e-3,
        damping_decrease: float = 0.5,
        damping_increase: float = 2.0,
        damping_floor: float = 1e-8,
        rescale: float = 1.0,
        max_step_size: float | None = None,
        kl_budget: float | None = 0.005,
        kl_decay: float = 0.5,
        curvature_decay: float | None = 0.9,
        ratio_every: int = 1,
        clip: Hook | None = None,
        **options: Any,
    ):
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "damping": damping,
            "damping_decrease": damping_decrease,
            "damping_increase": damping_increase,
            "damping_floor": damping_floor,
            "rescale": rescale,
            "max_step_size": max_step_size,
            "kl_budget": kl_budget,
            "kl_decay": kl_decay,
            "curvature_decay": curvature_decay,
            "ratio_every": ratio_every,
            "reach": 0.0,
            "steps": 0,
            "rejections": 0,
        } | dict.fromkeys(SEEN, 0.0)
        check_settings(defaults)
        self.direction, self.curvature, self.clip = direction, curvature, clip
        self.info: StepInfo | None = None
        super().__init__(params, defaults | options)  # type: ignore[arg-type]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, with the rule's common settings and its state as they are."""
        common = self.param_groups[0] if self.param_groups else self.defaults
        for name in _COMMON:
            if param_group.setdefault(name, common[name]) != common[name]:
                raise ValueError(
                    f"{name} is one for all groups, {common[name]!r}, got "
                    f"{param_group[name]!r} in a group: give it to the optimiser"
                )
        super().add_param_group(param_group)
        check_settings(self.param_groups[-1])

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
        params, common = point.params, self.param_groups[0]

        grads, updates = self._updates(params)
        (update_norm,) = point.agreed(inner_product(updates, updates))
        sound = bool(point.loss.isfinite() & update_norm.isfinite())
        if not sound:  # Nothing that is not finite may enter the direction's memory.
            torch._foreach_zero_(updates)
        direction = self._directions(params, updates)
        lr = self._even_out_rates(params, direction)

        products = inner_product(grads, direction), inner_product(direction, direction)
        slope, square_norm = point.agreed(*products)
        # Held no longer than needed, they do not add to what the look takes.
        del grads, updates
        for param in params:
            param.grad = None
        look = Look(torch.full_like(slope, torch.nan))
        if sound:
            look = self.curvature.look(point, direction, common["reach"])
        seen, budget = self._budgeted(point)
        bent = look.curvature
        if common["curvature_decay"] is not None:
            seen = seen.with_curvature(bent, square_norm, common["curvature_decay"])
            bent = rules.steadied(bent, seen.curvature * square_norm)
        rounding = 4 * torch.finfo(scalar_dtype(params)).eps * abs(point.loss)
        if budget.least is not None:
            height = point.loss - budget.least + rounding
            bent = rules.steadied(bent, rules.least_curvature(slope, height))
        proposal = propose(common, slope, square_norm, bent, budget, lr)
        if look.trial is None:
            outcome = self._tried(point, direction, proposal, rounding)
        else:
            outcome = seen_at_a_distance(
                proposal, slope, point.loss, look.trial, rounding
            )

        accepted = sound and proposal.is_finite() and outcome.is_finite()
        step_size = float(proposal.step_size) if accepted else 0.0
        if step_size != 0:
            move(params, direction, -step_size)
        self.info = StepInfo(
            loss=float(point.loss),
            trial_loss=float(outcome.trial_loss),
            slope=float(slope),
            curvature=float(look.curvature),
            step_size=step_size,
            damping=common["damping"] or 0.0,
            reduction_ratio=float(outcome.ratio),
            predicted_change=float(proposal.predicted),
            kl_divergence=float(
                rules.kl_divergence(step_size, look.curvature, budget.dispersion)
            ),
            limit=proposal.limit,
            rejected=not accepted,
            rejections=common["rejections"] + (not accepted),
        )
        self._set_common(
            damping=next_damping(common, outcome.ratio, accepted),
            reach=abs(step_size) if accepted else common["reach"] / 4,
            steps=common["steps"] + 1,
            rejections=self.info.rejections,
            **(seen.numbers() if accepted else {}),
        )
        return point.loss.to(params[0].device, scalar_dtype(params))

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

    def _even_out_rates(self, params: list[Tensor], direction: list[Tensor]) -> float:
        """Shorten the direction where `lr` is below the largest, which is returned."""
        rates = [float(g["lr"]) for g, members in self._members() for _ in members]
        largest = max(rates)
        if largest > 0 and min(rates) < largest:
            torch._foreach_mul_(direction, [rate / largest for rate in rates])
        return largest

    def _budgeted(self, point: Point) -> tuple[Seen, Budget]:
        """What was seen with this batch, and what its step may cost."""
        common = self.param_groups[0]
        seen = Seen.recalled(common)
        if common["kl_budget"] is None:
            return seen, Budget(scalar(1.0), allowed=None, least=None)
        return budgeted(common, seen, point.examples(), point.scale(), point.least())

    def _tried(
        self,
        point: Point,
        direction: list[Tensor],
        proposal: Proposal,
        rounding: Tensor,
    ) -> Outcome:
        """What the loss does at the step, seen there if it is due."""
        common = self.param_groups[0]
        due = common["damping"] is not None and (
            common["steps"] % common["ratio_every"] == 0
        )
        if not (due and proposal.is_finite()):
            return Outcome.unseen()
        outputs = point.outputs_at(direction, float(proposal.step_size))
        (trial_loss,) = point.means(point.loss_sums(outputs))
        return seen_at_the_step(proposal, point.loss, trial_loss, rounding)

    def _set_common(self, **values: Any) -> None:
        for group in self.param_groups:
            group.update(values)
