"""Paths over Rosenbrock's valley, as the paper's first figure has them."""

from collections.abc import Iterator

import numpy as np

from qlrstudy.report.charts import Axis, Chart, Series, Values
from qlrstudy.report.groups import Section
from qlrstudy.report.styles import style

# Nothing else in the study has two parameters, which a plane can show.
_TASK, _SIDES = "rosenbrock", (-2.0, 2.0)


def paths(part: Section) -> Chart | None:
    """Trajectories over Rosenbrock's valley, the first seed of each algorithm.

    None of another task, or of runs that kept no positions.
    """
    if part.place.task != _TASK:
        return None
    series = tuple(
        Series(
            group.algorithm,
            group.title,
            style(group.algorithm),
            {"x": path[:, 0]},
            {"y": path[:, 1]},
        )
        for group in part.groups
        if (path := group.runs[0].positions) is not None
    )
    if not series:
        return None
    return Chart(
        f"{part.key}-paths",
        f"{part.title}: the first seed of each",
        "Path over the valley",
        "path",
        (Axis("x", "x", least=_SIDES[0], most=_SIDES[1], fixed=True),),
        (Axis("y", "y", least=-1.6, most=3.2, fixed=True),),
        series,
        tuple(_heights()),
    )


def _heights() -> Iterator[Values]:
    r"""Where $(1 - x)^2 + 100 (y - x^2)^2$ has some heights, and a cross at its end."""
    for height in np.geomspace(0.1, 3000, 12):
        left, right = np.clip(1 + np.sqrt(height) * np.array([-1, 1]), *_SIDES)
        # Closer where a line turns back.
        share = (1 - np.cos(np.linspace(0, np.pi, 100))) / 2
        x = left + share * (right - left)
        half = np.sqrt(np.maximum(height - (1 - x) ** 2, 0.0)) / 10
        yield np.stack([x, x**2 + half], axis=1)
        yield np.stack([x, x**2 - half], axis=1)
    yield np.array([[0.94, 1.0], [1.06, 1.0]])
    yield np.array([[1.0, 0.94], [1.0, 1.06]])
