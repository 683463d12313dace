r"""The method's scalar arithmetic: how far to step, and how far to trust the model.

Along a direction $d$ the loss is modelled by the damped quadratic

$$M(\alpha) = f - \alpha\, g^\top d
    + \tfrac12 \alpha^2\, d^\top (C + \lambda I)\, d,$$

with $g$ the gradient, $C$ the curvature and $\lambda$ the damping. Every function here
is written with operators alone, so that it takes Python floats, JAX scalars and torch
scalars alike, and each equation of the method stands in the project once.
"""

import enum
from collections.abc import Mapping
from typing import Any

# Floats, JAX scalars and torch scalars have no common type to name.
Scalar = Any

# The reduction ratios between which the model is neither trusted more nor less
# (Clarke and Hernández-Lobato 2024, equation 2, after Levenberg and Marquardt).
TRUST_BELOW, TRUST_ABOVE = 1 / 4, 3 / 4

# Damping may not grow until `bend` overflows: then every later step would be refused,
# also those of healthy batches. In float32, 1e16 leaves 22 orders for the direction.
DAMPING_CEILING = 1e16


class Limit(enum.IntEnum):
    """What decided the length of a step."""

    MODEL = 0
    KL_BUDGET = 1
    MAX_STEP_SIZE = 2


def bend(curvature: Scalar, damping: Scalar, square_norm: Scalar) -> Scalar:
    r"""Second derivative of the damped model, $d^\top C d + \lambda\, d^\top d$."""
    return curvature + damping * square_norm


def step_size(slope: Scalar, bend: Scalar) -> Scalar:
    r"""Minimiser of the model, $\alpha = g^\top d \,/\, d^\top (C + \lambda I) d$.

    The update is $-\alpha d$. A slope of zero gives zero, also where the bend is zero
    too (a direction of zeros, as from dead units).
    """
    flat = slope == 0
    return slope / (bend + flat * (1 + abs(bend)))


def running_mean(mean: Scalar, value: Scalar, decay: Scalar) -> Scalar:
    """Exponential mean of what was seen so far; a mean of zero has seen nothing."""
    begun = mean != 0
    weight = 1 - begun * decay
    return mean * (1 - weight) + value * weight


def steadied(curvature: Scalar, mean: Scalar) -> Scalar:
    """The larger of a curvature and its running mean.

    A small batch is often one that the network has learnt already: its outputs hardly
    answer to a step, whatever the step does to all other examples. Steps that such a
    batch would let through are held by the curvature of the batches before.
    """
    rarer = curvature < mean
    return curvature * (1 - rarer * 1) + mean * rarer


def least_curvature(slope: Scalar, height: Scalar) -> Scalar:
    r"""Of the parabola that falls no lower than the loss can.

    $$\frac{(g^\top d)^2}{2\, (f - f_*)}$$

    A squared error bends at least as much, by Cauchy and Schwarz. A softmax that is
    sure of itself and wrong does not: its Fisher information vanishes and its slope
    does not, so that a step to its model's minimum would be without bound.

    Args:
        slope: $g^\top d$.
        height: $f - f_*$, of the loss above the least that the targets allow.
    """
    above = (height > 0) * 1
    return above * slope * slope / (2 * above * height + (1 - above))


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
    between = share * (1 - share) * (batch_mean - mean) ** 2
    return (1 - share) * variance + share * batch_variance + between


def dispersion(variance: Scalar, error: Scalar) -> Scalar:
    r"""What a nat is in units of a squared error, $\phi$.

    The variance of the targets: the distances over which predictions may differ. While
    the errors are larger than that (targets far from zero, or all the same; a network
    that starts far off), the errors are.
    """
    return steadied(variance, error)


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
    return step_size * step_size * abs(curvature) / (2 * dispersion)


def kl_allowance(budget: Scalar, decay: Scalar, seen: Scalar) -> Scalar:
    r"""Divergence that each example of a batch may cause, $\kappa_0 n^{-p}$.

    Args:
        budget: $\kappa_0$, in nats.
        decay: $p$; zero for an allowance that stays.
        seen: $n$, examples seen so far, those of this batch among them.
    """
    return budget / seen**decay


def excess(divergence: Scalar, allowed: Scalar) -> Scalar:
    """How many times too long a step of such a divergence is; 0 for no divergence."""
    return (divergence / (allowed + (divergence == 0))) ** 0.5


def shortened(step_size: Scalar, excess: Scalar) -> Scalar:
    """Divide a step size by its `excess` over a limit, where that is above 1."""
    within = excess <= 1
    return step_size / (within * 1 + excess * (excess > 1))


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
    stretch = step_size / distance
    return -step_size * slope + stretch * stretch * (change + distance * slope)


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
    hidden = (abs(predicted) <= resolution) * (abs(change) <= resolution)
    known = 1 - hidden * 1
    answer = hidden * (1 - (predicted == 0) / 2)
    return (change * known + answer) / (predicted * known + hidden * 1)


def next_damping(
    damping: Scalar, ratio: Scalar, decrease: Scalar, increase: Scalar, floor: Scalar
) -> Scalar:
    r"""Levenberg and Marquardt's rule: trust a model that predicts well.

    $$\lambda \gets \begin{cases}
        \omega_\mathrm{dec} \lambda & \rho > 3/4 \\
        \omega_\mathrm{inc} \lambda & \rho < 1/4 \\
        \lambda & \text{otherwise, also where } \rho \text{ was not measured (NaN)}
    \end{cases}$$

    and never below `floor`.
    """
    trusted = damping * decrease ** (ratio > TRUST_ABOVE)
    damping = trusted * increase ** (ratio < TRUST_BELOW)
    damping = damping * (damping > floor) + floor * (damping <= floor)
    ceiling = DAMPING_CEILING
    return damping * (damping < ceiling) + ceiling * (damping >= ceiling)


# Lowest and highest value of each setting, and whether the lowest itself is too low.
_RANGES = {
    "damping": (0, float("inf"), True),
    "damping_decrease": (0, 1, True),
    "damping_increase": (1, float("inf"), False),
    "damping_floor": (0, float("inf"), False),
    "rescale": (0, float("inf"), True),
    "max_step_size": (0, float("inf"), True),
    "kl_budget": (0, float("inf"), True),
    "kl_decay": (0, 1, False),
    "curvature_decay": (0, 1, False),
    "ratio_every": (1, float("inf"), False),
}
_MAY_BE_NONE = {"damping", "max_step_size", "kl_budget", "curvature_decay"}


def check_settings(settings: Mapping[str, Scalar]) -> None:
    """Refuse settings of the rule that are out of range; others are not looked at.

    Raises:
        ValueError: one is outside its range.
        TypeError: one is no number at all.
    """
    for name, (low, high, open_low) in _RANGES.items():
        value = settings[name]
        if value is None and name in _MAY_BE_NONE:
            continue
        if value is None or isinstance(value, str):
            raise TypeError(f"{name} must be a number, got {value!r}")
        check_range(name, value, low, high, open_low=open_low)


def check_range(
    name: str,
    value: Scalar,
    low: float,
    high: float = float("inf"),
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> None:
    """Refuse a setting outside its range, naming argument, value and range.

    Only plain numbers are looked at: a traced value has no number yet.

    Raises:
        ValueError: `value` is outside the range or not a number.
    """
    if not isinstance(value, int | float):
        return
    above = value > low if open_low else value >= low
    open_high = open_high or high == float("inf")
    below = value < high if open_high else value <= high
    if not (above and below):
        left, right = "(" if open_low else "[", ")" if open_high else "]"
        raise ValueError(
            f"{name} must lie in {left}{low:g}, {high:g}{right}, got {value!r}"
        )
