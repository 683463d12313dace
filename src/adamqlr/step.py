r"""The method itself, once: what it remembers, what a step proposes, how it is judged.

A front end *measures*: the loss and its slope along a direction $d$, and by a `Look`
the curvature there. `propose` answers with a step size, `judge` with what to remember
and what to report. Then the front end *moves* the parameters by $-\alpha d$. Everything
here is a pure function of scalars, of whatever framework they are.
"""

import math
from typing import NamedTuple

from adamqlr import rules
from adamqlr.rules import Limit, Scalar, Truth, where
from adamqlr.settings import Average, Rule

# Of the running means of the error and of the direction's length: some ten batches.
ERROR_DECAY = NORM_DECAY = 0.9

# How many nats a network may be off before a nat counts for less than one: one that
# starts by guessing among 20,000 classes is.
USUAL_NATS = 10.0

# How many times longer or shorter than this direction the usual one may be taken for.
UNUSUAL_NORM = 10.0

# Curvatures change most at the start: that many steps all look.
FIRST_LOOKS = 8

# How many times as far as anybody has looked or gone a step may go.
BEYOND_LOOK = 10.0


class Scale(NamedTuple):
    """The targets of one batch, over all examples and outputs.

    Attributes:
        mean: of the targets.
        variance: of the targets around it.
        error: mean square of their distance to the predictions.
    """

    mean: Scalar
    variance: Scalar
    error: Scalar


class Batch(NamedTuple):
    """What a likelihood says about the batch of a step.

    Attributes:
        examples: how many the mean loss is over.
        scale: of the targets; `None` where the loss is in nats by itself.
        least: the loss below which no step can go; `None` if that is not known.
    """

    examples: Scalar
    scale: Scale | None
    least: Scalar | None


class Trial(NamedTuple):
    r"""The loss seen at a distance.

    Attributes:
        distance: $h$.
        change: $f(\theta - h d) - f(\theta)$ of the whole batch; `None` if only a part
            was looked at, whose slope is not the batch's.
    """

    distance: Scalar
    change: Scalar | None


class Look(NamedTuple):
    r"""What one look along a direction shows.

    Attributes:
        curvature: $d^\top C d$; `None` if it is to be told from the trial.
        trial: the loss at a distance, if it came with the curvature at no cost; `None`
            if it takes an evaluation of its own, which then is best spent on the step
            that was chosen.
        farthest: the longest step that a look of its kind allows, if it has a limit.
    """

    curvature: Scalar | None
    trial: Trial | None = None
    farthest: Scalar | None = None


class Measurement(NamedTuple):
    r"""All that a front end measures before a step.

    Attributes:
        loss: $f(\theta)$ of the batch.
        slope: $g^\top d$.
        square_norm: $d^\top d$.
        curvature: $d^\top C d$; NaN where nobody looked.
        distance: $h$, at which a look evaluates the model; `None` for a derivative.
        looked: whether somebody did, which also says whether a trial counts.
        sound: whether loss and gradient are finite.
        rounding: size of rounding errors in a difference of two losses.
        batch: what the likelihood says; `None` where the rule has no budget.
        farthest: see `Look`.
    """

    loss: Scalar
    slope: Scalar
    square_norm: Scalar
    curvature: Scalar
    distance: Scalar | None
    looked: Truth
    sound: Truth
    rounding: Scalar
    batch: Batch | None
    farthest: Scalar | None = None


class Memory(NamedTuple):
    r"""What the method remembers from one step to the next.

    Attributes:
        damping: $\lambda$ of the next step.
        reach: where a probe looks next: the size of the last step that was made, or a
            quarter of the former reach after one was refused.
        curvature: running mean of $d^\top C d / d^\top d$ over all looks.
        square_norm: running mean of $d^\top d$, where there is a budget.
        examples: how many were seen, as far as a budget counts them.
        uncounted: what rounding has left out of that: single examples, once there are
            more of them than float32 can count (16,777,216).
        mean: of all targets, where a budget needs the scale that the likelihood leaves
            open; zero elsewhere.
        variance: of all targets; of losses that count nats, what a nat is.
        error: running mean of their square distance to the predictions; of losses in
            nats, of their height above the least, in units of `USUAL_NATS`.
        orientation: the sign of the first step's size: directions that point uphill,
            as Adam's, have 1, updates that others would add have -1.
        steps: how many were made.
        rejections: how many others were refused.
    """

    damping: Scalar
    reach: Scalar
    curvature: Scalar
    square_norm: Scalar
    examples: Scalar
    uncounted: Scalar
    mean: Scalar
    variance: Scalar
    error: Scalar
    orientation: Scalar
    steps: Scalar
    rejections: Scalar


class Proposal(NamedTuple):
    r"""A step before it is tried.

    Attributes:
        step_size: $\alpha$.
        curvature: $d^\top C d$ as it is counted with.
        bend: $d^\top C d + \lambda\, d^\top d$, no less than was seen before.
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
        rejected: whether the step was refused because something was not finite.
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


def begin(rule: Rule) -> Memory:
    """What is remembered before the first step."""
    damping = 0.0 if rule.damping is None else rule.damping.initial
    return Memory(damping, *[0.0] * 9, steps=0, rejections=0)


def is_due(rule: Rule, memory: Memory) -> Truth:
    """Whether the next step is one that looks along its direction.

    While no curvature was seen (the first look was refused, say) every step is: the
    running mean would else be a curvature of zero.
    """
    if rule.look_every == 1:
        return True
    first = (memory.steps < FIRST_LOOKS) | (memory.curvature == 0)
    return first | (memory.steps % rule.look_every == 0)


def measurement(
    look: Look,
    *,
    loss: Scalar,
    slope: Scalar,
    square_norm: Scalar,
    looked: Truth,
    sound: Truth,
    epsilon: float,
    batch: Batch | None,
) -> Measurement:
    """What a look and the gradient say together; see `Measurement`.

    Args:
        look: along the direction; of NaN where nobody looked.
        loss: of the batch.
        slope: along the direction.
        square_norm: of the direction.
        looked: whether somebody did.
        sound: whether loss and gradient are finite.
        epsilon: relative rounding of the loss's type.
        batch: what the likelihood says, where the rule has a budget.
    """
    curvature, trial = look.curvature, look.trial
    if curvature is None and trial is not None:
        curvature = abs(rules.curvature_between(slope, *trial))
    return Measurement(
        loss=loss,
        slope=slope,
        square_norm=square_norm,
        curvature=curvature,
        distance=None if trial is None else trial.distance,
        looked=looked,
        sound=sound,
        rounding=4 * epsilon * abs(loss),
        batch=batch,
        farthest=look.farthest,
    )


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
    memory, dispersion = _with_batch(memory, measured)
    memory, curvature = _with_curvature(rule, memory, measured)
    if batch is not None and batch.least is not None:
        height = measured.loss - batch.least + measured.rounding
        curvature = rules.maximum(curvature, rules.least_curvature(slope, height))
    damping = memory.damping * dispersion
    bend = rules.bend(curvature, damping, measured.square_norm)
    step_size = rule.rescale * rules.step_size(slope, bend)
    limit = int(Limit.MODEL)
    if batch is not None and rule.budget is not None:
        budget, seen = rule.budget, memory.examples
        allowed = rules.kl_allowance(
            budget.nats, batch.examples, budget.power, seen, budget.decay
        )
        # What a step like this one would move the predictions by, as directions go.
        memory, usual = _with_norm(memory, measured.square_norm)
        divergence = rules.kl_divergence(step_size, curvature * usual)
        excess = rules.excess(divergence, allowed * dispersion)
        memory = _with_orientation(memory, step_size)
        step_size = memory.orientation * abs(rules.shortened(step_size, excess))
        limit = where(excess > 1, int(Limit.KL_BUDGET), limit)
    step_size = factor * step_size
    if rule.budget is not None:
        known = math.inf if measured.distance is None else measured.distance
        known = BEYOND_LOOK * where(measured.looked, known, memory.reach)
        excess = rules.quotient(abs(step_size), known)
        step_size = rules.shortened(step_size, excess)
        limit = where(excess > 1, int(Limit.LOOK), limit)
    if measured.farthest is not None:
        excess = rules.quotient(abs(step_size), measured.farthest)
        step_size = rules.shortened(step_size, excess)
        limit = where(excess > 1, int(Limit.LOOK), limit)
    predicted = rules.predicted_change(step_size, slope, bend)
    return Proposal(step_size, curvature, bend, predicted, limit, dispersion, memory)


def _with_batch(memory: Memory, measured: Measurement) -> tuple[Memory, Scalar]:
    r"""Count a batch in; also tells $\phi$, what a nat is in units of its loss."""
    batch = measured.batch
    if batch is None:
        return memory, 1
    more = memory.uncounted + batch.examples
    examples = memory.examples + more
    uncounted = rules.left_out(examples, more, memory.examples)
    memory = memory._replace(examples=examples, uncounted=uncounted)
    scale, share = _scale(measured.loss, batch), batch.examples / examples
    if scale is None:
        return memory, 1
    memory = memory._replace(
        mean=memory.mean + share * (scale.mean - memory.mean),
        variance=rules.pooled_variance(
            memory.mean, memory.variance, scale.mean, scale.variance, share
        ),
        error=rules.running_mean(memory.error, scale.error, ERROR_DECAY),
    )
    return memory, rules.dispersion(memory.variance, memory.error)


def _scale(loss: Scalar, batch: Batch) -> Scale | None:
    """The likelihood's; for losses that count nats, with their height as an error.

    Networks may be thousands of nats off at first. A loss of nats in a unit of its own
    has a scale without an error.
    """
    scale, least = batch.scale, batch.least
    if least is None:
        return scale
    height = rules.maximum(loss - least, 0 * loss) / USUAL_NATS
    if scale is None:
        return Scale(0 * loss, 0 * loss + 1, height)
    return scale._replace(error=where(scale.error == 0, height, scale.error))


def _with_norm(memory: Memory, square_norm: Scalar) -> tuple[Memory, Scalar]:
    """Count a direction's length in; also tells the usual square norm over this one's.

    Were each direction stretched to the same divergence, the long ones that a rare
    example makes would be cut, and the short ones of gradients that contradict each
    other stretched: a step then follows Adam's momentum less than Adam does.
    """
    mean = rules.running_mean(memory.square_norm, square_norm, NORM_DECAY)
    usual = rules.kept_within(mean, square_norm, UNUSUAL_NORM)
    ratio = usual / where(square_norm == 0, 1, square_norm)
    return memory._replace(square_norm=mean), where(square_norm == 0, 1.0, ratio)


def _with_curvature(
    rule: Rule, memory: Memory, measured: Measurement
) -> tuple[Memory, Scalar]:
    """Take a look into the running mean, which stands for the curvature.

    A small batch is often one that the network has learnt already: its outputs hardly
    answer to a step, whatever that does to all other examples.
    """
    if rule.curvature_decay is None:
        return memory, measured.curvature
    looked, square_norm = measured.looked, measured.square_norm
    steepness = measured.curvature / where(square_norm == 0, 1, square_norm)
    mean = rules.running_mean(memory.curvature, steepness, rule.curvature_decay)
    mean = where(looked, mean, memory.curvature)
    return memory._replace(curvature=mean), mean * square_norm


def _with_orientation(memory: Memory, step_size: Scalar) -> Memory:
    """Tell from the first step whether directions point downhill or uphill."""
    first = where(step_size < 0, -1.0, where(step_size > 0, 1.0, 0.0))
    known = memory.orientation != 0
    return memory._replace(orientation=where(known, memory.orientation, first))


def judge(
    rule: Rule,
    memory: Memory,
    measured: Measurement,
    proposal: Proposal,
    trial: Trial | None,
) -> tuple[Memory, StepInfo]:
    """What the step teaches, and what there is to say about it.

    The step to make is `StepInfo.step_size`: zero where anything that should be finite
    is not. If that is the batch's own loss or gradient, nothing is learnt from it; if
    it is what the step would lead to, the model is trusted less.

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
        reach=_next_reach(memory.reach, step_size, accepted, sound),
        steps=memory.steps + where(accepted, 1, 0),
        rejections=rejections,
    ), info


def _next_reach(
    reach: Scalar, step_size: Scalar, accepted: Truth, sound: Truth
) -> Scalar:
    """Where to look next; a step of zero or a bad batch is no reason to look closer."""
    made = where(step_size == 0, reach, abs(step_size))
    return where(accepted, made, where(sound, reach / 4, reach))


def averaging_weight(average: Average, memory: Memory, info: StepInfo) -> Scalar:
    """Of the new parameters in the mean of all; zero if the step was refused."""
    weight = rules.averaging_weight(memory.steps, average.power)
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
    return trial.change, where(measured.looked, ratio, math.nan)


def _next_damping(rule: Rule, damping: Scalar, ratio: Scalar) -> Scalar:
    if rule.damping is None:
        return damping
    decrease, increase = rule.damping.decrease, rule.damping.increase
    return rules.next_damping(damping, ratio, decrease, increase, rule.damping.floor)
