"""The method's settings as values, checked when they are made.

Every number may be a traced or injected scalar instead, so that a sweep over settings
compiles one program; only plain numbers can be checked.
"""

import dataclasses
import math
import numbers
from typing import Any

from adamqlr.rules import Scalar


def check_range(
    name: str,
    value: Scalar,
    low: float,
    high: float = math.inf,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> None:
    """Refuse a setting outside its range, naming argument, value and range.

    Only plain numbers are looked at: a traced value has no number yet.

    Raises:
        ValueError: `value` is outside the range or not a number.
        TypeError: `value` is `None` or text.
    """
    if value is None or isinstance(value, str):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not isinstance(value, numbers.Real):  # NumPy's scalars are.
        return
    number = float(value)
    above = number > low if open_low else number >= low
    open_high = open_high or high == math.inf
    below = number < high if open_high else number <= high
    if not (above and below):
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        raise ValueError(
            f"{name} must lie in {left}{low:g}, {high:g}{right}, got {value!r}"
        )


@dataclasses.dataclass(frozen=True)
class Damping:
    r"""How much is added to the curvature, and how that follows the model's success.

    Args:
        initial: first $\lambda > 0$.
        decrease: $\omega_\mathrm{dec}$ in (0, 1], by which $\lambda$ falls after a step
            that went as the model predicted (a reduction ratio above 3/4).
        increase: $\omega_\mathrm{inc} \ge 1$, by which it grows after one that did not
            (below 1/4).
        floor: smallest $\lambda$.
    """

    initial: Scalar = 1e-3
    decrease: Scalar = 0.5
    increase: Scalar = 2.0
    floor: Scalar = 1e-8

    def __post_init__(self) -> None:
        check_range("Damping.initial", self.initial, 0, open_low=True)
        check_range("Damping.decrease", self.decrease, 0, 1, open_low=True)
        check_range("Damping.increase", self.increase, 1)
        check_range("Damping.floor", self.floor, 0)


@dataclasses.dataclass(frozen=True)
class KLBudget:
    r"""How far one step may move the predictions: a trust region in KL divergence.

    After $n$ examples, a step on a batch of $|B|$ of them may move the predictions by
    $\kappa = \kappa_0 |B|^r n^{-p}$ nats: $\alpha^2 d^\top C d \le 2\phi\, \kappa$,
    with $\phi$ the variance of targets that have units, and one for others, and with
    the usual length of $d$ in place of this one's. And it always goes forward: a batch
    whose own slope asks for a way back is one of a rare kind, or has none of it; it
    tells how far to go, and the direction where to. Nor may a step go more than ten
    times as far as a probe has looked, or the last step went, or be more than 1.75
    times as long as steps have been so far. As a network comes to know its examples the
    curvature vanishes, and Adam's directions shrink: they are meant to, and are not
    stretched for it. Where $h$ nats are left to learn, on average over some batches, a
    step may not move the predictions by more than $0.06\, h^{3/2}$ of them.

    While predictions are worse than a constant's, $e$ times, the examples seen count
    $e^{-6}$ of themselves, and a step may move predictions $e^6$ times as far, up to
    where their targets are.

    What no limit cuts goes half as far again as the model's minimum: along a direction
    that is mostly momentum the minimum is a greedy place to stop.

    Args:
        nats: $\kappa_0 > 0$, what a first batch of one example may cause.
        decay: $p$ in [0, 1]; zero for a budget that stays.
        power: $r$ in [0, 1], of the examples of the batch.
        seen: with how many examples $n$ begins: those that a trained network was
            trained on, so that an optimiser that knows nothing of it takes no longer
            steps than its training had come to. `None` to tell it by the first batches:
            where all eight have less than half of a constant's error, one with $1 / b$
            of it counts $b^6$ times, $b$ at most ten.
    """

    nats: Scalar = 0.009
    decay: Scalar = 0.5
    power: Scalar = 1.0
    seen: Scalar | None = None

    def __post_init__(self) -> None:
        if self.seen is not None:
            check_range("KLBudget.seen", self.seen, 0)
        check_range("KLBudget.nats", self.nats, 0, open_low=True)
        check_range("KLBudget.decay", self.decay, 0, 1)
        check_range("KLBudget.power", self.power, 0, 1)


@dataclasses.dataclass(frozen=True)
class Average:
    r"""A running mean of the parameters, to be evaluated in their place.

    The parameters are trained as if it were not there. They wander about a minimum; the
    mean of where they have been lies nearer to it, as after a schedule that lets the
    steps fall to zero, but at every moment and without knowing the end.

    Args:
        power: $p \ge 0$; the t-th iterate weighs like $t^p$, so that about the last
            $1 / (p + 1)$ of them count.
    """

    power: Scalar = 8.0

    def __post_init__(self) -> None:
        check_range("Average.power", self.power, 0)


@dataclasses.dataclass(frozen=True)
class Horizon:
    """An end of training that is known: steps fall to zero towards it, in a line.

    It does for the parameters themselves what `Average` does without knowing an end,
    for who has to evaluate those or has no memory for a mean; both together are no
    better than either. Beyond the end nothing moves, which `info.limit` tells:
    `Limit.HORIZON`.

    Args:
        steps: how many the whole training has, refused ones among them.
        share: in (0, 1], the last share of them over which steps become shorter.
    """

    steps: Scalar
    share: Scalar = 0.2

    def __post_init__(self) -> None:
        check_range("Horizon.steps", self.steps, 1)
        check_range("Horizon.share", self.share, 0, 1, open_low=True)


@dataclasses.dataclass(frozen=True)
class Rule:
    r"""How the length of a step is chosen and its outcome judged.

    The defaults want no tuning at any batch size: one more forward pass at a distance
    measures the curvature, its running mean holds steps back that a lucky batch would
    let through, and no step moves the predictions further than the examples seen so far
    allow. `PAPER` is as published.

    Args:
        damping: see `Damping`; `None` for none, and no trial loss. With a budget there
            is no need for it, and what it adds to the curvature has units.
        budget: see `KLBudget`; `None` for steps to the model's minimum, however far.
        curvature_decay: of the running mean of $d^\top C d / d^\top d$ in [0, 1), which
            stands for the curvature; `None` for each batch's own.
        rescale: $k > 0$, multiplies the model's step size.
        look_every: look along the direction, and so measure curvature and reduction
            ratio, at the first eight steps and then at each so many-th only, twice as
            rarely after 256 steps and four times after 1,024 (of those for which
            predictions were no worse than a constant's); the damping stays in between.
            With 1 each step looks, always.
        average: see `Average`; `None` for none.
        horizon: see `Horizon`; `None` for training without an end.
    """

    damping: Damping | None = None
    budget: KLBudget | None = KLBudget()
    curvature_decay: Scalar | None = 0.8
    rescale: Scalar = 1.0
    look_every: int = 4
    average: Average | None = Average()
    horizon: Horizon | None = None

    def __post_init__(self) -> None:
        _check_type("damping", self.damping, Damping)
        _check_type("budget", self.budget, KLBudget)
        _check_type("average", self.average, Average)
        _check_type("horizon", self.horizon, Horizon)
        if self.curvature_decay is not None:
            check_range("curvature_decay", self.curvature_decay, 0, 1, open_high=True)
        check_range("rescale", self.rescale, 0, open_low=True)
        check_range("look_every", self.look_every, 1)
        if not isinstance(self.look_every, numbers.Integral):
            raise TypeError(
                "look_every must be a whole number that is known when the rule is "
                f"made, got {self.look_every!r}: it cannot be traced or injected"
            )
        if self.curvature_decay is None and self.look_every != 1:
            raise ValueError(
                f"look_every={self.look_every!r} needs a running mean of the curvature "
                "for the steps between: give curvature_decay a number"
            )


def _check_type(name: str, value: Any, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(
            f"{name} must be a {kind.__name__} or None, got {value!r}: write "
            f"{name}={kind.__name__}({value!r})"
        )


# For losses that are no mean over examples: they have no nats, and `LossProbe` a limit.
ANY_LOSS = Rule(budget=None, look_every=1)

# AdamQLR (Untuned) of Clarke and Hernández-Lobato 2024, section 4.
PAPER = Rule(Damping(), budget=None, curvature_decay=None, look_every=1, average=None)
