"""What each axis of a chart shows, decided once: figures and page have the same.

The page computes marks of its own only where a reader has zoomed.
"""

from collections.abc import Iterator

import numpy as np

from qlrstudy.report.charts import Axis, Chart
from qlrstudy.report.scales import View, fitted, ticks

# Of marks, about; fewer are named where there is no room for them.
_ACROSS, _UP = 8, 6
# Beside what is shown, as a share of it.
_ROOM, _ROOM_OF_POINTS = 0.04, 0.07


def view(chart: Chart, axis: Axis, *, log: bool) -> View | None:
    """From where to where an axis goes, and its marks.

    Args:
        chart: to be drawn; all of its series count.
        axis: one of its axes.
        log: whether it is to be logarithmic.

    Returns:
        `None` where there is nothing to show.
    """
    across = axis in chart.x
    if axis.fixed:
        assert axis.least is not None and axis.most is not None
        ends = axis.least, axis.most
    else:
        room = _ROOM_OF_POINTS if _has_bars(chart) else _ROOM
        if across and not log and not _has_bars(chart):
            room = 0.0  # time begins at the left edge
        values = np.concatenate([np.empty(0), *_values(chart, axis, across)])
        least, most = axis.least, axis.most
        ends = fitted(values, log=log, least=least, most=most, room=room)
    if ends is None:
        return None
    named = [(value, f"{value:g}") for value in axis.ticks]
    marks = named or ticks(*ends, log=log, count=_ACROSS if across else _UP)
    return View(log, *ends, tuple(marks))


def _values(chart: Chart, axis: Axis, across: bool) -> Iterator[np.ndarray]:
    """All that a chart has along an axis, error bars included."""
    for one in chart.series:
        values = (one.x if across else one.y).get(axis.key)
        if values is None:
            continue
        yield values
        if not across and _has_bars(chart) and axis.key in one.error:
            yield values - one.error[axis.key]
            yield values + one.error[axis.key]


def _has_bars(chart: Chart) -> bool:
    return chart.kind in ("points", "sweep")
