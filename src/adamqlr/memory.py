"""What the method remembers from one step to the next, and how it takes a batch in."""

import math
from typing import NamedTuple

from adamqlr import rules
from adamqlr.measurements import Batch, Measurement, Scale
from adamqlr.rules import Scalar, Truth, where
from adamqlr.settings import Rule

# Of the running means of the error and of the direction's length: some ten batches.
ERROR_DECAY = NORM_DECAY = 0.9

# How many nats a network may be off before a nat counts for less than one, where it is
# not known what guessing costs: one that guesses among 20,000 classes is.
USUAL_NATS = 10.0

# Of the height of a loss in nats, see `nats_to_targets`. A quarter would be all of the
# way if it were in proportion to logits on all examples alike; 0.15 swings far beyond.
NATS_TO_TARGETS = 0.1

# By how many batches it is told whether a network was trained before, and how many
# times better than a constant one counts at most: even one that is never wrong has
# more to learn.
FIRST_BATCHES, MUCH_BETTER = 8, 10.0

# How many times longer or shorter than this direction the usual one may be taken for.
UNUSUAL_NORM = 10.0


class Memory(NamedTuple):
    r"""What the method remembers from one step to the next.

    Attributes:
        damping: $\lambda$ of the next step.
        reach: where a probe looks next: the size of the last step that was made, or a
            quarter of the former reach after one was refused.
        step_size: mean size of all steps made, without what a schedule made of them,
            where there is a budget; those of zero say nothing of the others.
        moves: how many it is the mean of.
        curvature: running mean of $d^\top C d / d^\top d$ over all looks.
        square_norm: running mean of $d^\top d$, where there is a budget.
        examples: how many were seen, as far as a budget counts them.
        uncounted: what rounding has left out of that: single examples, once there are
            more of them than float32 can count (16,777,216).
        astray: how many examples do not count, since they were seen while predictions
            were worse than a constant's.
        before: how many examples the network counts as trained on before this
            training, by its first batches.
        arrived: one, once predictions have had less than half of a constant's error in
            squares.
        mean: of all targets, where a budget needs the scale that the likelihood leaves
            open; zero elsewhere.
        variance: of all targets; of losses that count nats, what a nat is.
        error: running mean of their square distance to the predictions; of losses in
            nats, of their height above the least, over what guessing costs.
        orientation: the sign of the first step's size: directions that point uphill,
            as Adam's, have 1, updates that others would add have -1.
        steps: how many were made.
        rejections: how many others were refused.
    """

    damping: Scalar
    reach: Scalar
    step_size: Scalar
    moves: Scalar
    curvature: Scalar
    square_norm: Scalar
    examples: Scalar
    uncounted: Scalar
    astray: Scalar
    before: Scalar
    arrived: Scalar
    mean: Scalar
    variance: Scalar
    error: Scalar
    orientation: Scalar
    steps: Scalar
    rejections: Scalar


def begin(rule: Rule) -> Memory:
    """What is remembered before the first step."""
    damping = 0.0 if rule.damping is None else rule.damping.initial
    return Memory(damping, *[0.0] * 14, steps=0, rejections=0)


def with_batch(memory: Memory, measured: Measurement) -> tuple[Memory, Scalar]:
    r"""Count a batch in; also tells $\phi$, what a nat is in units of its loss."""
    batch = measured.batch
    if batch is None:
        return memory, 1
    more = memory.uncounted + batch.examples
    examples = memory.examples + more
    uncounted = rules.left_out(examples, more, memory.examples)
    memory = memory._replace(examples=examples, uncounted=uncounted)
    scale = _scale(measured.loss, batch)
    share = rules.quotient(batch.examples, examples)
    if scale is None:
        return memory, 1
    memory = memory._replace(
        mean=memory.mean + share * (scale.mean - memory.mean),
        variance=rules.pooled_variance(
            memory.mean, memory.variance, scale.mean, scale.variance, share
        ),
        error=rules.running_mean(memory.error, scale.error, ERROR_DECAY),
    )
    near = (memory.error < memory.variance / 2) & where(_is_in_nats(batch), False, True)
    memory = memory._replace(arrived=where(near, 1.0, memory.arrived))
    share = rules.share_astray(latitude(memory))
    memory = memory._replace(
        astray=memory.astray + share * batch.examples,
        before=_before(memory, scale.error, batch),
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
    height = rules.quotient(rules.maximum(loss - least, 0 * loss), _chance(batch))
    if scale is None:
        return Scale(0 * loss, 0 * loss + 1, height)
    return scale._replace(error=where(scale.error == 0, height, scale.error))


def latitude(memory: Memory) -> Scalar:
    """By what limits are wider; one, unless predictions are worse than a constant.

    How much worse is the error over the variance; of losses in nats, the loss over
    that of guessing: a large one is a network's that is sure and wrong. An error in
    squares may be large for an outlier among the targets, so that one who has arrived
    once is not let go again.
    """
    known = (memory.variance > 0) & (memory.arrived == 0)
    ratio = rules.quotient(memory.error, where(known, memory.variance, 1))
    return rules.latitude(where(known & (ratio > 1), ratio, 1.0))


def _before(memory: Memory, error: Scalar, batch: Batch) -> Scalar:
    """Examples that a network counts as trained on, if all first batches look like it.

    What has less than half of a constant's error at once has learnt before. If it is
    r times as good as the constant, its batch counts r ** 6 times: what is r times as
    bad has r ** 6 times the budget. The least certain of the first batches decides,
    since one may be lucky.
    """
    known = where(_is_in_nats(batch), batch.chance is not None, True)
    better = rules.quotient(memory.variance, error)
    better = where(better > MUCH_BETTER, MUCH_BETTER, better)
    trained = known & (memory.variance > 0) & (better > 2)
    examples = where(trained, rules.latitude(better) * batch.examples, 0.0)
    fewer = (memory.steps == 0) | (examples < memory.before)
    undecided = (memory.steps < FIRST_BATCHES) & fewer
    return where(undecided, examples, memory.before)


def steps_that_count(memory: Memory) -> Scalar:
    """Steps so far, but for those whose examples do not count: see `Memory.astray`."""
    examples = where(memory.examples > 0, memory.examples, 1)
    return memory.steps * (1 - memory.astray / examples)


def nats_to_targets(batch: Batch) -> Scalar:
    r"""Divergence of a step that would bring predictions to their targets, in $\phi$.

    That of an error of squares is one. A softmax that is sure and wrong has a loss in
    proportion to its logits: a step of so much of its height is about all of the way.
    """
    return where(_is_in_nats(batch), NATS_TO_TARGETS * _chance(batch), 1.0)


def nats_left(memory: Memory, batch: Batch) -> Scalar:
    """Running mean of the nats that losses are above the least that targets allow.

    Infinite where nobody can tell: the least is not known, or the loss has a scale of
    its own, as a squared error does, whose height says nothing of what can be learnt.
    """
    if batch.least is None:
        return math.inf
    nat = where(memory.variance == 0, 1, memory.variance)
    left = _chance(batch) * memory.error / nat
    return where(_is_in_nats(batch), left, math.inf)


def _is_in_nats(batch: Batch) -> Truth:
    """Whether the loss counts nats, in whatever unit."""
    return True if batch.scale is None else batch.scale.error == 0


def _chance(batch: Batch) -> float:
    """Nats that guessing costs."""
    return USUAL_NATS if batch.chance is None else batch.chance


def with_norm(memory: Memory, square_norm: Scalar) -> tuple[Memory, Scalar]:
    """Count a direction's length in; also tells the usual square norm over this one's.

    Were each direction stretched to the same divergence, the long ones that a rare
    example makes would be cut, and the short ones of gradients that contradict each
    other stretched: a step then follows Adam's momentum less than Adam does.
    """
    mean = rules.running_mean(memory.square_norm, square_norm, NORM_DECAY)
    usual = rules.kept_within(mean, square_norm, UNUSUAL_NORM)
    ratio = usual / where(square_norm == 0, 1, square_norm)
    return memory._replace(square_norm=mean), where(square_norm == 0, 1.0, ratio)


def with_curvature(
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


def with_orientation(memory: Memory, step_size: Scalar) -> Memory:
    """Tell from the first step whether directions point downhill or uphill."""
    first = where(step_size < 0, -1.0, where(step_size > 0, 1.0, 0.0))
    known = memory.orientation != 0
    return memory._replace(orientation=where(known, memory.orientation, first))


def with_step(memory: Memory, step_size: Scalar, factor: Scalar) -> Memory:
    """Count a step's size in, as it was before a schedule's factor."""
    size = abs(step_size) / where(factor == 0, 1, factor)
    mean = rules.usual_size(memory.step_size, size, memory.moves)
    moves = memory.moves + where(size == 0, 0.0, 1.0)
    return memory._replace(step_size=mean, moves=moves)
