"""What a front end measures before a step, as values of any framework's scalars."""

import math
from typing import NamedTuple

from adamqlr import rules
from adamqlr.rules import Scalar, Truth


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
        examples: how many the mean loss is over; of padding alone, zero.
        scale: of the targets; `None` where the loss is in nats by itself.
        least: the loss below which no step can go; `None` if that is not known.
        chance: of a loss in nats, those that guessing costs; `None` if not known.
    """

    examples: Scalar
    scale: Scale | None
    least: Scalar | None
    chance: float | None = None


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
        sound: whether loss and gradient are finite, of a batch with any examples.
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
        look: along the direction; of anything where nobody looked.
        loss: of the batch.
        slope: along the direction.
        square_norm: of the direction.
        looked: whether somebody did.
        sound: whether loss and gradient are finite, of a batch with any examples.
        epsilon: relative rounding of the loss's type.
        batch: what the likelihood says, where the rule has a budget.
    """
    curvature, trial = look.curvature, look.trial
    if curvature is None and trial is not None:
        curvature = abs(rules.curvature_between(slope, *trial))
    curvature = rules.where(looked, curvature, math.nan)
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
