"""Sensitivity along training: a curve for each value of a setting, as in the paper."""

import numpy as np

from qlrstudy.report.charts import Chart, Curves, Series, curve_chart
from qlrstudy.report.groups import file_name
from qlrstudy.report.render import number
from qlrstudy.report.styles import MARKERS, style
from qlrstudy.report.sweeps import Sweep

_QUANTITIES = ("test_loss", "training_loss")
# Blue, grey and orange: the least, the middle and the largest value.
_RAMP = np.array([(0, 114, 178), (150, 150, 150), (213, 94, 0)], float)


def trajectories(sweep: Sweep, evaluations: Curves) -> Chart | None:
    """Losses along training for each value; `None` for a sweep at several batches.

    Args:
        sweep: one setting's values.
        evaluations: the curves of its groups.
    """
    if len(sweep.lines) != 1:
        return None
    (line,) = sweep.lines
    series = []
    for index, (value, group) in enumerate(zip(line.values, line.groups, strict=True)):
        curve = evaluations[group]
        assert curve is not None
        bands = {name: curve.bands[name] for name in _QUANTITIES if name in curve.bands}
        look = style(sweep.algorithm)._replace(
            colour=_colour(index / max(1, len(line.values) - 1)),
            dash=(),
            marker=list(MARKERS)[index % len(MARKERS)],
        )
        series.append(
            Series(
                sweep.algorithm,
                number(float(f"{value:.3g}")),
                look,
                {
                    "seconds": curve.seconds,
                    "steps": curve.steps,
                    "epochs": curve.epochs,
                },
                {name: band.mean for name, band in bands.items()},
                {name: band.error for name, band in bands.items()},
            )
        )
    place, setting = sweep.place, sweep.setting.replace("_", " ")
    task = line.groups[0].runs[0].titles[0]
    words = ("trajectories", place.task, place.scale, str(place.budget))
    return curve_chart(
        file_name(*words, sweep.algorithm, sweep.setting),
        f"{sweep.title} by {setting}: {task}, {place.budget}",
        f"Sensitivity: {sweep.title}, {setting}, along training",
        tuple(series),
        _QUANTITIES,
    )


def _colour(share: float) -> str:
    """A colour between those of the least and the largest value."""
    place = share * (len(_RAMP) - 1)
    first = min(int(place), len(_RAMP) - 2)
    mixed = _RAMP[first] + (place - first) * (_RAMP[first + 1] - _RAMP[first])
    return "#" + "".join(f"{round(part):02X}" for part in mixed)
