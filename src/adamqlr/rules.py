r"""The method's scalar arithmetic: how far to step, and how far to trust the model.

Along a direction $d$ the loss is modelled by the damped quadratic

$$M(\alpha) = f - \alpha\, g^\top d
    + \tfrac12 \alpha^2\, d^\top (C + \lambda I)\, d,$$

with $g$ the gradient, $C$ the curvature and $\lambda$ the damping. Every function here
takes Python floats, NumPy scalars, JAX scalars and torch scalars alike and answers in
the precision it was given, so that each equation of the method stands in the project
once. Infinities and NaN go through as IEEE 754 has it: nothing raises.
"""

import enum
import functools
import math
from typing import Any

# Floats, NumPy scalars, JAX scalars and torch scalars have no common type to name.
Scalar = Any
Truth = Any

# The reduction ratios between which the model is neither trusted more nor less
# (Clarke and Hernández-Lobato 2024, equation 2, after Levenberg and Marquardt).
TRUST_BELOW, TRUST_ABOVE = 1 / 4, 3 / 4

# Damping may not grow until `bend` overflows: then every later step would be refused,
# also those of healthy batches. In float32, 1e16 leaves 22 orders for the direction.
DAMPING_CEILING = 1e16

# The factor of `late_allowance`: with 0.03 or 0.1 in its place digits lose up to 1 %.
LATE_SHARE = 0.06


class Limit(enum.IntEnum):
    """What decided the length of a step.

    The quadratic model, the budget of divergence, how far anybody has looked, how long
    steps have been so far, or the end of training that a horizon tells.
    """

    MODEL = 0
    KL_BUDGET = 1
    LOOK = 2
    USUAL = 3
    HORIZON = 4


def where(condition: Truth, then: Scalar, otherwise: Scalar) -> Scalar:
    """One of two scalars, by a condition; a plain one is decided at once."""
    if isinstance(condition, bool):
        return then if condition else otherwise
    return selected(condition, then, otherwise)


@functools.singledispatch
def selected(condition: Truth, then: Scalar, otherwise: Scalar) -> Scalar:
    """What `where` answers for conditions that are arrays, by their type.

    Front ends register their own, since the value may not be known yet.
    """
    return then if condition else otherwise


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """The larger of two scalars; NaN if either is."""
    # Of two numbers one is no smaller than the other; only NaN reaches the sum.
    return where(a >= b, a, where(b > a, b, a + b))


def is_finite(value: Scalar) -> Truth:
    """Whether a scalar is neither infinite nor NaN."""
    return abs(value) < math.inf


def quotient(numerator: Scalar, denominator: Scalar) -> Scalar:
    """Of two scalars; an infinity by zero, where plain Python would raise."""
    zero = denominator == 0
    return where(zero, numerator * math.inf, numerator / where(zero, 1, denominator))


def raised(base: Scalar, exponent: Scalar) -> Scalar:
    """A power in [0, 1]; NaN of a negative base, where plain Python's is complex."""
    return where(base < 0, math.nan, base) ** exponent


def bend(curvature: Scalar, damping: Scalar, square_norm: Scalar) -> Scalar:
    r"""Second derivative of the damped model, $d^\top C d + \lambda\, d^\top d$."""
    return curvature + damping * square_norm


def step_size(slope: Scalar, bend: Scalar) -> Scalar:
    r"""Minimiser of the model, $\alpha = g^\top d \,/\, d^\top (C + \lambda I) d$.

    The update is $-\alpha d$. A slope of zero gives zero, also where the bend is zero
    too (a direction of zeros, as from dead units).
    """
    return where(slope == 0, slope, quotient(slope, bend))


def left_out(total: Scalar, addend: Scalar, former: Scalar) -> Scalar:
    """What rounding has left out of a sum, to be added with the next addend.

    Kahan, *Further remarks on reducing truncation errors*, 1965.

    Args:
        total: `former + addend`, rounded.
        addend: what was added, the smaller one.
        former: what it was added to.
    """
    return addend - (total - former)


def running_mean(mean: Scalar, value: Scalar, decay: Scalar) -> Scalar:
    """Exponential mean of what was seen so far; a mean of zero has seen nothing."""
    return where(mean == 0, value, decay * mean + (1 - decay) * value)


def kept_within(value: Scalar, centre: Scalar, factor: Scalar) -> Scalar:
    """The value, or the nearest that is within so many times the centre; both >= 0."""
    low, high = quotient(centre, factor), centre * factor
    return where(value < low, low, where(value > high, high, value))


def least_curvature(slope: Scalar, height: Scalar) -> Scalar:
    r"""Of the parabola that falls no lower than the loss can.

    $$\frac{(g^\top d)^2}{2\, (f - f_*)}$$

    A squared error bends at least as much, by Cauchy and Schwarz. A softmax that is
    sure of itself and wrong does not: its Fisher information vanishes and its slope
    does not, so that a step to its model's minimum would be without bound.

    Args:
        slope: $g^\top d$.
        height: $f - f_*$, of the loss above the least that the targets allow. A loss
            at its lowest (rounding may put it below) demands nothing.
    """
    above = height > 0
    return where(above, slope * slope / (2 * where(above, height, 1)), 0 * slope)


def pooled_variance(
    mean: Scalar,
    variance: Scalar,
    batch_mean: Scalar,
    batch_variance: Scalar,
    share: Scalar,
) -> Scalar:
    """Variance of all examples, out of the former ones' and a batch's.

    Args:
        mean: of the former.
        variance: of the former.
        batch_mean: of the batch.
        batch_variance: of the batch.
        share: of the batch in all examples. Chan, Golub and LeVeque 1983.
    """
    between = share * (1 - share) * (batch_mean - mean) * (batch_mean - mean)
    return (1 - share) * variance + share * batch_variance + between


def dispersion(variance: Scalar, error: Scalar) -> Scalar:
    r"""What a nat is in units of the loss, $\phi$.

    Of a squared error the variance of the targets: the distances over which predictions
    may differ. While the errors are larger than that (targets far from zero, or all the
    same; a network that starts far off), the errors are. Of a loss that is in nats by
    itself one, as long as its errors are those of a network that starts as usual.
    """
    return maximum(variance, error)


def kl_divergence(
    step_size: Scalar, curvature: Scalar, dispersion: Scalar = 1
) -> Scalar:
    r"""Mean divergence of the predictions by a step, $\alpha^2 |d^\top C d| / 2\phi$.

    In nats, to second order, where $C$ is the Fisher information; for other curvatures
    the square of a length in the same units.

    Args:
        step_size: $\alpha$.
        curvature: $d^\top C d$ of a loss that is $\phi$ times a number of nats.
        dispersion: $\phi$.
    """
    return quotient(step_size * step_size * abs(curvature), 2 * dispersion)


def kl_allowance(
    nats: Scalar, examples: Scalar, power: Scalar, seen: Scalar, decay: Scalar
) -> Scalar:
    r"""Divergence that a step on a batch may cause, $\kappa_0 |B|^r n^{-p}$.

    Args:
        nats: $\kappa_0$.
        examples: $|B|$, of the batch.
        power: $r$.
        seen: $n$, examples seen so far, those of this batch among them.
        decay: $p$; zero for an allowance that stays.
    """
    return quotient(nats * raised(examples, power), raised(seen, decay))


def latitude(ratio: Scalar) -> Scalar:
    r"""By what limits are wider for a network that is worse than a constant, $r^6$.

    The power is steep, so that one that is hardly worse keeps to its limits: at 1.1
    times as bad they are 1.8 times as wide, at twice 64 times.

    Args:
        ratio: $r \ge 1$, how many times the error of a constant predictions have.
    """
    cube = ratio * ratio * ratio
    return cube * cube


def share_astray(latitude: Scalar) -> Scalar:
    r"""Of the examples of a batch, those that do not count as seen, $1 - r^{-6}$.

    A budget falls with the examples seen, since what they have taught is not to be
    lost again. Those that a network saw when it was worse than a constant have taught
    it nothing yet.

    Args:
        latitude: $r^6$.
    """
    return 1 - quotient(1.0, latitude)


def allowance_astray(allowed: Scalar, latitude: Scalar, most: Scalar) -> Scalar:
    r"""Divergence that a step may cause while predictions are worse than a constant.

    $$\max\left(\kappa, \min(\kappa\, r^6, \kappa_\mathrm{most})\right)$$

    There is nothing to be careful of then, and a network that starts a million times
    off would not arrive by tenths of its error.

    Args:
        allowed: $\kappa$, of the budget.
        latitude: $r^6$.
        most: $\kappa_\mathrm{most}$, which brings them to their targets.
    """
    more = allowed * latitude
    more = where(more > most, most, more)
    return where(more > allowed, more, allowed)


def late_allowance(nats: Scalar) -> Scalar:
    r"""Divergence that a step may cause when few nats are left to learn.

    $$0.06\, h^{3/2}$$

    A network that knows its examples gains nothing by becoming surer of them in leaps.
    Some nats from the end this hardly binds; where a hundredth of a nat is left, a step
    may move the predictions by 0.6 % of that. Factor and power are what served test
    losses best.

    Args:
        nats: $h$, of the loss above the least that its targets allow.
    """
    return LATE_SHARE * nats * raised(nats, 0.5)


def excess(divergence: Scalar, allowed: Scalar) -> Scalar:
    """How many times too long a step of such a divergence is; 0 for no divergence."""
    none = divergence == 0
    return raised(where(none, divergence, quotient(divergence, allowed)), 0.5)


def shortened(step_size: Scalar, excess: Scalar) -> Scalar:
    """Divide a step size by its `excess` over a limit, where that is above 1."""
    return where(excess > 1, step_size / where(excess > 1, excess, 1), step_size)


def predicted_change(step_size: Scalar, slope: Scalar, bend: Scalar) -> Scalar:
    r"""Change of the model, $M(\alpha) - M(0)$; negative where it improves."""
    return -step_size * slope + step_size * step_size * bend / 2


def change_at(
    step_size: Scalar, slope: Scalar, distance: Scalar, change: Scalar
) -> Scalar:
    r"""Change of the loss at $\alpha$, by a parabola through what was seen at $h$.

    $$-\alpha\, g^\top d
        + \left(\frac{\alpha}{h}\right)^2 \left(\Delta f(h) + h\, g^\top d\right),$$

    which is $\Delta f(h)$ itself at $\alpha = h$.

    Args:
        step_size: $\alpha$.
        slope: $g^\top d$.
        distance: $h$.
        change: $\Delta f(h) = f(\theta - h d) - f(\theta)$.
    """
    stretch = quotient(step_size, distance)
    parabola = -step_size * slope + stretch * stretch * (change + distance * slope)
    return where(step_size == distance, change, parabola)


def curvature_between(slope: Scalar, distance: Scalar, change: Scalar) -> Scalar:
    r"""Of the parabola through the loss and its slope here and its change at $h$.

    $$\frac{2}{h^2} \left(\Delta f(h) + h\, g^\top d\right)$$
    """
    return quotient(2 * (change + distance * slope), distance * distance)


def reduction_ratio(change: Scalar, predicted: Scalar, resolution: Scalar) -> Scalar:
    r"""How much of the predicted change came true, $\rho$.

    Two cases have no quotient worth having. Where nothing was predicted (a step of
    zero) nothing was learnt about the model: the answer is 1/2, which leaves the
    damping alone. Where a change below the loss's rounding was predicted and none
    above it came, the model was right: 1, or else a damping once so large that no
    step shows in the loss would stay there for good.

    Args:
        change: $f(\theta - \alpha d) - f(\theta)$, both on the batch of the gradient.
        predicted: the model's `predicted_change` for the same $\alpha$.
        resolution: the size of rounding errors in `change`.
    """
    hidden = (abs(predicted) <= resolution) & (abs(change) <= resolution)
    answer = where(predicted == 0, 0.5, 1.0)
    return where(hidden, answer, quotient(change, predicted))


def usual_size(mean: Scalar, size: Scalar, count: Scalar) -> Scalar:
    """Mean of the sizes of steps; one of zero says nothing about the others.

    Args:
        mean: of the former.
        size: of this one.
        count: how many there were before.
    """
    return where(size == 0, mean, mean + quotient(size - mean, count + 1))


def cooldown(count: Scalar, steps: Scalar, share: Scalar) -> Scalar:
    """By what steps are shortened as training ends: a line down to zero.

    Args:
        count: of the steps so far.
        steps: of the whole training.
        share: of them over which steps become shorter.
    """
    left = quotient(steps - count, share * steps)
    return where(left > 1, 1.0, where(left < 0, 0.0, left))


def averaging_weight(count: Scalar, power: Scalar) -> Scalar:
    r"""Of the newest iterate in a mean that weighs the t-th like $t^p$.

    $$m_t = m_{t-1} + \frac{p + 1}{p + t}\, (\theta_t - m_{t-1})$$

    About the last $1 / (p + 1)$ of all iterates count, however many they are, so that
    nobody has to say when training ends (Shamir and Zhang 2013).
    """
    return quotient(power + 1, power + count)


def next_damping(
    damping: Scalar, ratio: Scalar, decrease: Scalar, increase: Scalar, floor: Scalar
) -> Scalar:
    r"""Levenberg and Marquardt's rule: trust a model that predicts well.

    $$\lambda \gets \begin{cases}
        \omega_\mathrm{dec} \lambda & \rho > 3/4 \\
        \omega_\mathrm{inc} \lambda & \rho < 1/4 \\
        \lambda & \text{otherwise, also where } \rho \text{ was not measured (NaN)}
    \end{cases}$$

    and never below `floor` or above `DAMPING_CEILING`.
    """
    trusted = where(ratio > TRUST_ABOVE, damping * decrease, damping)
    damping = where(ratio < TRUST_BELOW, damping * increase, trusted)
    damping = where(damping > floor, damping, floor)
    return where(damping < DAMPING_CEILING, damping, DAMPING_CEILING)
