"""How far: from what a look showed to a step, and from its outcome to the damping.

Pure functions of scalars, float64 on the CPU: the method costs no more than a handful
of them a step, and in tensors a division by zero is infinite and not an exception.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from adamqlr import rules
from adamqlr.rules import Limit
from adamqlr.torch.curvature import Trial
from adamqlr.torch.memory import Budget, scalar


class StepInfo(NamedTuple):
    r"""What one step measured and did.

    Attributes:
        loss: $f(\theta)$ of the batch, before the step.
        trial_loss: the same batch's $f(\theta - \alpha d)$, or $f(\theta - h d)$ if it
            was seen by a probe at $h$; NaN where not evaluated.
        slope: $g^\top d$.
        curvature: $d^\top C d$.
        step_size: $\alpha$ of the update $-\alpha d$; zero if the step was refused.
        damping: $\lambda$ in this step's bend.
        reduction_ratio: $\rho$; NaN where not measured.
        predicted_change: $M(\alpha) - M(0)$.
        kl_divergence: $\alpha^2 d^\top C d / 2\phi$: nats, if $C$ is the Fisher.
        limit: a `Limit`, what decided the step's length.
        rejected: whether the step was refused because something was not finite.
        rejections: how many steps were refused so far.
    """

    loss: float
    trial_loss: float
    slope: float
    curvature: float
    step_size: float
    damping: float
    reduction_ratio: float
    predicted_change: float
    kl_divergence: float
    limit: Limit
    rejected: bool
    rejections: int


class Proposal(NamedTuple):
    """A step before it is tried."""

    step_size: Tensor
    bend: Tensor
    predicted: Tensor
    limit: Limit

    def is_finite(self) -> bool:
        """Whether it may be made."""
        return bool(self.bend.isfinite() & self.step_size.isfinite())


class Outcome(NamedTuple):
    """What a step did, or will do, to the loss; `measured` if it was looked at."""

    trial_loss: Tensor
    ratio: Tensor
    measured: bool

    def is_finite(self) -> bool:
        """Whether nothing speaks against the step."""
        return not self.measured or bool(self.trial_loss.isfinite())

    @classmethod
    def unseen(cls) -> "Outcome":
        """Of a step that nobody looked at."""
        return cls(scalar(torch.nan), scalar(torch.nan), measured=False)


def propose(
    settings: dict[str, Any],
    slope: Tensor,
    square_norm: Tensor,
    curvature: Tensor,
    budget: Budget,
    lr: float,
) -> Proposal:
    r"""The model's minimum, cut to its limits; a schedule's `lr` multiplies the rest.

    Only then can a warm-up shorten a step that the budget has cut already.

    Args:
        settings: `damping`, `rescale` and `max_step_size`.
        slope: $g^\top d$.
        square_norm: $d^\top d$.
        curvature: $d^\top C d$, no less than what was seen before.
        budget: what the step may cost.
        lr: the schedule's factor.
    """
    damping = scalar(settings["damping"] or 0.0) * budget.dispersion
    bend = rules.bend(curvature, damping, square_norm)
    step_size = settings["rescale"] * rules.step_size(slope, bend)
    limit = Limit.MODEL
    if budget.allowed is not None:
        divergence = rules.kl_divergence(step_size, curvature)
        excess = rules.excess(divergence, budget.allowed)
        step_size = rules.shortened(step_size, excess)
        limit = Limit.KL_BUDGET if excess > 1 else limit
    if settings["max_step_size"] is not None:
        excess = abs(step_size) / settings["max_step_size"]
        step_size = rules.shortened(step_size, excess)
        limit = Limit.MAX_STEP_SIZE if excess > 1 else limit
    step_size = lr * step_size
    predicted = rules.predicted_change(step_size, slope, bend)
    return Proposal(step_size, bend, predicted, limit)


def seen_at_the_step(
    proposal: Proposal, loss: Tensor, trial_loss: Tensor, rounding: Tensor
) -> Outcome:
    """The outcome, from the loss where the step ends."""
    ratio = rules.reduction_ratio(trial_loss - loss, proposal.predicted, rounding)
    return Outcome(trial_loss, ratio, measured=True)


def seen_at_a_distance(
    proposal: Proposal,
    slope: Tensor,
    loss: Tensor,
    trial: Trial,
    rounding: Tensor,
) -> Outcome:
    """The outcome, by a parabola through the loss where a probe looked."""
    if trial.change is None:
        return Outcome.unseen()
    step_size = proposal.step_size
    rounding = rounding * (step_size / trial.distance) ** 2
    expected = rules.change_at(step_size, slope, trial.distance, trial.change)
    ratio = rules.reduction_ratio(expected, proposal.predicted, rounding)
    return Outcome(loss + trial.change, ratio, measured=True)


def next_damping(
    settings: dict[str, Any], ratio: Tensor, accepted: bool
) -> float | None:
    """The damping after a step; a step that was refused counts as the worst."""
    if settings["damping"] is None:
        return None
    # Powers of Python floats would come in float32.
    names = ("damping", "damping_decrease", "damping_increase", "damping_floor")
    damping, decrease, increase, floor = [scalar(settings[name]) for name in names]
    ratio = ratio if accepted else scalar(-torch.inf)
    return float(rules.next_damping(damping, ratio, decrease, increase, floor))
