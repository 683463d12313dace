r"""The method itself, once: what a step proposes and how it is judged.

A front end *measures*: the loss and its slope along a direction $d$, and by a `Look`
the curvature there. `propose` answers with a step size, `judge` with what to remember
and what to report. Then the front end *moves* the parameters by $-\alpha d$. Everything
here is a pure function of scalars, of whatever framework they are.
"""

import math
from typing import NamedTuple

from adamqlr import rules
from adamqlr.measurements import Batch, Measurement, Trial
from adamqlr.memory import (
    Memory,
    latitude,
    nats_left,
    nats_to_targets,
    steps_that_count,
    with_batch,
    with_curvature,
    with_norm,
    with_orientation,
    with_step,
)
from adamqlr.rules import Limit, Scalar, Truth, where
from adamqlr.settings import Average, KLBudget, Rule

# Curvatures change most at the start: that many steps all look.
FIRST_LOOKS = 8

# From these on looks are twice, and four times, as rare as `Rule.look_every` says: what
# changes a curvature then is time's logarithm. On thirteen cells of the study test
# losses are within 0.6 % of those with looks that stay as frequent.
RARER_LOOKS, RAREST_LOOKS = 256, 1024

# How many times as far as the model's minimum a step goes that nothing else cuts. Where
# gradients have little noise, the minimum along a direction that is mostly momentum is
# a greedy place to stop: the next steps pay for it. Above 2 the model would climb.
BEYOND_MINIMUM = 1.5

# How many times as far as anybody has looked or gone a step may go.
BEYOND_LOOK = 10.0

# How many times as long as steps have been on average one may be: their mean then
# grows like t ** 0.75 at most.
UNUSUAL_STEP = 1.75

# The share of the loss that its slope promises where a probe first looks.
FIRST_LOOK = 0.01


class Proposal(NamedTuple):
    r"""A step before it is tried.

    Attributes:
        step_size: $\alpha$.
        curvature: $d^\top C d$ as it is counted with.
        bend: $d^\top C d + \lambda \phi\, d^\top d$.
        predicted_change: $M(\alpha) - M(0)$.
        limit: what decided the length.
        dispersion: $\phi$, what a nat is in units of the loss.
        memory: with the batch counted in it.
    """

    step_size: Scalar
    curvature: Scalar
    bend: Scalar
    predicted_change: Scalar
    limit: Scalar
    dispersion: Scalar
    memory: Memory


class StepInfo(NamedTuple):
    r"""What one step measured and did.

    Attributes:
        loss: $f(\theta)$ of the batch, before the step.
        trial_loss: the same batch's $f(\theta - \alpha d)$, or $f(\theta - h d)$ if it
            was seen by a probe at $h$; NaN where not evaluated.
        slope: $g^\top d$.
        curvature: $d^\top C d$ of the batch; NaN where nobody looked.
        step_size: $\alpha$ of the update $-\alpha d$; zero if the step was refused.
        damping: $\lambda$ in this step's bend.
        reduction_ratio: $\rho$; NaN where not measured.
        predicted_change: $M(\alpha) - M(0)$.
        kl_divergence: $\alpha^2 d^\top C d / 2 \phi$, by the curvature that the step
            was counted with: nats, if $C$ is the Fisher.
        limit: a `Limit`, what decided the step's length.
        rejected: whether the step was refused because something was not finite, or the
            batch had no examples.
        rejections: how many steps were refused so far.
    """

    loss: Scalar
    trial_loss: Scalar
    slope: Scalar
    curvature: Scalar
    step_size: Scalar
    damping: Scalar
    reduction_ratio: Scalar
    predicted_change: Scalar
    kl_divergence: Scalar
    limit: Scalar
    rejected: Truth
    rejections: Scalar


def is_due(rule: Rule, memory: Memory) -> Truth:
    """Whether the next step is one that looks along its direction.

    While no curvature was seen (the first look was refused, say) every step is: the
    running mean would else be a curvature of zero.
    """
    if rule.look_every == 1:
        return True
    first = (memory.steps < FIRST_LOOKS) | (memory.curvature == 0)
    interval = look_interval(rule, steps_that_count(memory))
    return first | (memory.steps % interval == 0)


def look_interval(rule: Rule, steps: Scalar) -> Scalar:
    """From one look to the next, in steps, once so many were made."""
    later = where(steps < RAREST_LOOKS, 2 * rule.look_every, 4 * rule.look_every)
    return where(steps < RARER_LOOKS, rule.look_every, later)


def reach(memory: Memory, loss: Scalar, slope: Scalar, batch: Batch | None) -> Scalar:
    """Where a probe looks: as far as the last step went.

    Before there is one, where the slope promises a hundredth of the loss, which is
    the same place whatever the units of inputs and targets.
    """
    if batch is None or batch.least is None:
        return memory.reach
    promise = FIRST_LOOK * (loss - batch.least)
    first = where(slope == 0, 0.0, abs(rules.quotient(promise, slope)))
    return where(memory.reach == 0, first, memory.reach)


def propose(
    rule: Rule, memory: Memory, measured: Measurement, factor: Scalar = 1
) -> Proposal:
    r"""The model's minimum along the direction, cut to its limits.

    Args:
        rule: the settings.
        memory: of the former steps.
        measured: before this step.
        factor: of a schedule, after all limits: only then can a warm-up shorten a step
            that the budget has cut already.
    """
    slope, batch = measured.slope, measured.batch
    memory, dispersion = with_batch(memory, measured)
    memory, curvature = with_curvature(rule, memory, measured)
    if batch is not None and batch.least is not None:
        height = measured.loss - batch.least + measured.rounding
        curvature = rules.maximum(curvature, rules.least_curvature(slope, height))
    damping = memory.damping * dispersion
    bend = rules.bend(curvature, damping, measured.square_norm)
    step_size = rule.rescale * rules.step_size(slope, bend)
    limit = int(Limit.MODEL)
    if batch is not None and rule.budget is not None:
        step_size = BEYOND_MINIMUM * step_size
        allowed = _allowance(rule.budget, memory, batch)
        # What a step like this one would move the predictions by, as directions go.
        memory, usual = with_norm(memory, measured.square_norm)
        divergence = rules.kl_divergence(step_size, curvature * usual)
        excess = rules.excess(divergence, allowed * dispersion)
        memory = with_orientation(memory, step_size)
        step_size = memory.orientation * abs(rules.shortened(step_size, excess))
        limit = where(excess > 1, int(Limit.KL_BUDGET), limit)
    if rule.horizon is not None:
        count = memory.steps + memory.rejections
        left = rules.cooldown(count, rule.horizon.steps, rule.horizon.share)
        factor, limit = factor * left, where(left < 1, int(Limit.HORIZON), limit)
    step_size = factor * step_size
    if rule.budget is not None:
        usual = factor * memory.step_size
        known = (memory.moves >= FIRST_LOOKS) & (usual > 0)
        usual = where(known, UNUSUAL_STEP * usual, math.inf)
        step_size, limit = _cut(step_size, usual, limit, Limit.USUAL)
        known = math.inf if measured.distance is None else measured.distance
        known = BEYOND_LOOK * where(measured.looked, known, memory.reach)
        step_size, limit = _cut(step_size, known, limit, Limit.LOOK)
        memory = with_step(memory, step_size, factor)
    if measured.farthest is not None:
        step_size, limit = _cut(step_size, measured.farthest, limit, Limit.LOOK)
    predicted = rules.predicted_change(step_size, slope, bend)
    return Proposal(step_size, curvature, bend, predicted, limit, dispersion, memory)


def _allowance(budget: KLBudget, memory: Memory, batch: Batch) -> Scalar:
    """How many nats a step may move the predictions by, by all that is known."""
    learnt_from = rules.maximum(memory.examples - memory.astray, batch.examples)
    seen = learnt_from + (memory.before if budget.seen is None else budget.seen)
    allowed = rules.kl_allowance(
        budget.nats, batch.examples, budget.power, seen, budget.decay
    )
    allowed = rules.allowance_astray(allowed, latitude(memory), nats_to_targets(batch))
    most = rules.late_allowance(nats_left(memory, batch))
    return where(most < allowed, most, allowed)


def _cut(
    step_size: Scalar, longest: Scalar, limit: Scalar, reason: Limit
) -> tuple[Scalar, Scalar]:
    """A step no longer than the longest, and what decided its length then."""
    excess = rules.quotient(abs(step_size), longest)
    return rules.shortened(step_size, excess), where(excess > 1, int(reason), limit)


def judge(
    rule: Rule,
    memory: Memory,
    measured: Measurement,
    proposal: Proposal,
    trial: Trial | None,
) -> tuple[Memory, StepInfo]:
    """What the step teaches, and what there is to say about it.

    The step to make is `StepInfo.step_size`: zero where anything that should be finite
    is not. If that is the batch's own loss or gradient, nothing is learnt from it, as
    from a batch of no examples; if it is what the step would lead to, the model is
    trusted less.

    Args:
        rule: the settings.
        memory: of the former steps.
        measured: before this step.
        proposal: the step.
        trial: the loss at the step or at a probe's distance; `None` if not seen.
    """
    step_size, sound = proposal.step_size, measured.sound
    change, ratio = _outcome(measured, proposal, trial)
    accepted = sound & rules.is_finite(proposal.bend) & rules.is_finite(step_size)
    if trial is not None and trial.change is not None:
        accepted = accepted & where(measured.looked, rules.is_finite(change), True)
    step_size = where(accepted, step_size, 0 * memory.reach)
    ratio_or_worst = where(accepted, ratio, -math.inf)
    damping = _next_damping(rule, memory.damping, ratio_or_worst)
    rejections = memory.rejections + where(accepted, 0, 1)
    info = StepInfo(
        loss=measured.loss,
        trial_loss=measured.loss + change,
        slope=measured.slope,
        curvature=measured.curvature,
        step_size=step_size,
        damping=memory.damping,
        reduction_ratio=ratio,
        predicted_change=proposal.predicted_change,
        kl_divergence=rules.kl_divergence(
            step_size, proposal.curvature, proposal.dispersion
        ),
        limit=proposal.limit,
        rejected=where(accepted, False, True),
        rejections=rejections,
    )
    learnt = zip(proposal.memory, memory, strict=True)
    return Memory(*[where(accepted, new, old) for new, old in learnt])._replace(
        damping=where(sound, damping, memory.damping),
        reach=_next_reach(memory.reach, measured, step_size, accepted),
        steps=memory.steps + where(accepted, 1, 0),
        rejections=rejections,
    ), info


def _next_reach(
    reach: Scalar, measured: Measurement, step_size: Scalar, accepted: Truth
) -> Scalar:
    """Where to look next; a step of zero or a bad batch is no reason to look closer."""
    made = where(step_size == 0, reach, abs(step_size))
    tried = reach
    if measured.distance is not None:  # The first look is where nobody went before.
        tried = where((reach == 0) & measured.looked, measured.distance, reach)
    return where(accepted, made, where(measured.sound, tried / 4, reach))


def averaging_weight(average: Average, memory: Memory, info: StepInfo) -> Scalar:
    """Of the new parameters in the mean of all; zero if the step was refused.

    Those of a network that was worse than a constant are no more to be averaged than
    its examples are to be counted: what comes next takes their place.
    """
    count = rules.maximum(steps_that_count(memory), 1.0)
    weight = rules.averaging_weight(count, average.power)
    return where(info.rejected, 0.0, weight)


def _outcome(
    measured: Measurement, proposal: Proposal, trial: Trial | None
) -> tuple[Scalar, Scalar]:
    """Change of the loss where it was tried, and the step's reduction ratio."""
    if trial is None or trial.change is None:
        return math.nan, math.nan
    step_size = proposal.step_size
    stretch = rules.quotient(step_size, trial.distance)
    stretch = where(step_size == trial.distance, 1, stretch)
    expected = rules.change_at(step_size, measured.slope, *trial)
    rounding = measured.rounding * stretch * stretch
    ratio = rules.reduction_ratio(expected, proposal.predicted_change, rounding)
    looked = measured.looked
    return where(looked, trial.change, math.nan), where(looked, ratio, math.nan)


def _next_damping(rule: Rule, damping: Scalar, ratio: Scalar) -> Scalar:
    if rule.damping is None:
        return damping
    decrease, increase = rule.damping.decrease, rule.damping.increase
    return rules.next_damping(damping, ratio, decrease, increase, rule.damping.floor)
