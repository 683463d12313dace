"""From numbers to places on an axis, and where it has its marks."""

import math
from typing import NamedTuple

import numpy as np

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# So far outside of a picture everything looks the same.
_FAR = 1e4


class View(NamedTuple):
    """What an axis shows: from where to where, and its marks with their text."""

    log: bool
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()


class AxisScale(NamedTuple):
    """What an axis shows, between two places."""

    view: View
    start: float
    end: float

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Where values lie; what has no logarithm lies far below."""
        log, low, high, _ = self.view
        if log:
            low, high = math.log10(low), math.log10(high)
            values = np.log10(np.maximum(values, 10.0 ** (2 * low - high - 1)))
        places = self.start + (values - low) / (high - low) * (self.end - self.start)
        return np.clip(places, -_FAR, _FAR)


def ticks(low: float, high: float, *, log: bool, count: int) -> list[tuple[float, str]]:
    """About so many round numbers between two, with their text."""
    if not log:
        return _linear_ticks(low, high, count)
    first = math.ceil(math.log10(low) - 1e-9)
    last = math.floor(math.log10(high) + 1e-9)
    if last - first >= 1:
        step = max(1, math.ceil((last - first + 1) / count))
        plain = first >= -3 and last <= 4
        return [
            (10.0**power, _short(10.0**power) if plain else _power(power))
            for power in range(first, last + 1, step)
        ]
    if high < 4 * low:
        return [tick for tick in _linear_ticks(low, high, count) if tick[0] > 0]
    values = [
        factor * 10.0**power
        for power in range(first - 1, last + 2)
        for factor in (1, 2, 5)
    ]
    inside = [value for value in values if low <= value <= high]
    return [(value, _short(value)) for value in inside]


def fitted(
    values: np.ndarray,
    *,
    log: bool,
    least: float | None = None,
    most: float | None = None,
    room: float = 0.04,
) -> tuple[float, float] | None:
    """From where to where an axis must go to show values, with some room.

    Args:
        values: those that are not finite, or not positive on a logarithmic axis, do
            not count.
        log: whether it is logarithmic.
        least: of what is shown, on a logarithmic axis.
        most: of what is shown.
        room: on either side, as a share of the whole; of a logarithmic axis, or
            where there is but one value, there is always some.

    Returns:
        The ends, or `None` where there is nothing to show.
    """
    known = values[np.isfinite(values)]
    if log:
        known = known[known > 0]
    if not len(known):
        return None
    low, high = float(known.min()), float(known.max())
    low = low if least is None or not log else max(low, least)
    high = max(low, high if most is None else min(high, most))
    if log:
        factor = max(math.exp(room * (math.log(high) - math.log(low))), 1.02)
        known = np.finfo(float)
        return max(low / factor, float(known.tiny)), min(
            high * factor, float(known.max)
        )
    margin = (high - low) * room if high > low else abs(high) * 0.05 or 1.0
    return low - margin, high + margin


def _linear_ticks(low: float, high: float, count: int) -> list[tuple[float, str]]:
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = power * next(f for f in (1, 2, 5, 10) if f * power >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    values = [float(f"{place * step:.12g}") for place in range(first, last + 1)]
    return [(value, _short(value)) for value in values]


def _short(value: float) -> str:
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-")
    return f"{value:,.10g}"


def _power(power: int) -> str:
    return "10" + str(power).translate(_SUPERSCRIPTS)
