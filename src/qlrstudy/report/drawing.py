"""How every figure looks, and how it is written: as SVG, PDF and PNG, reproducibly."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from qlrstudy.report.statistics import Band
from qlrstudy.report.styles import style

# Each without the time of its making, which would change from report to report.
_FORMATS = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {"Software": None},
}
_LOOK: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
    "svg.fonttype": "none",
    "svg.hashsalt": "adamqlr",
}
# Where the longest run takes so many times the shortest's, and there is such a gap
# between two that follow each other, the axis changes its scale in the gap.
_ORDERS_APART, _GAP = 8.0, 3.5
_SHORT_PART = 0.6


def look() -> AbstractContextManager[None]:
    """The house's look, for all that is drawn within."""
    return mpl.rc_context(_LOOK)


def figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def axes(made: Figure, rows: int, columns: int, **options: Any) -> list[Axes]:
    """Its axes, row by row."""
    return list(made.subplots(rows, columns, squeeze=False, **options).ravel())


def save(made: Figure, folder: Path, name: str) -> list[Path]:
    """Write it in each format."""
    # Once for all formats: it takes longer than the drawing.
    made.draw_without_rendering()
    made.set_layout_engine("none")
    paths = []
    for kind, metadata in _FORMATS.items():
        path = folder / f"{name}.{kind}"
        made.savefig(path, format=kind, dpi=160, metadata=metadata)
        paths.append(path)
    return paths


def draw_band(
    place: Axes, x: np.ndarray, band: Band, algorithm: str, label: str
) -> None:
    """A median with its error band and a few markers, in the algorithm's style."""
    own = style(algorithm)
    known = np.isfinite(x) & np.isfinite(band.mean)
    x, mean, error = x[known], band.mean[known], band.error[known]
    if not len(x):
        return
    place.plot(
        x,
        mean,
        color=own.colour,
        dashes=own.dash or (None, None),
        marker=own.marker,
        markersize=4,
        markevery=max(1, len(x) // 6),
        linewidth=1.4,
        label=plain(label),
    )
    place.fill_between(
        x, mean - error, mean + error, color=own.colour, alpha=0.18, linewidth=0
    )


def fit_loss_axis(place: Axes, bands: Sequence[Band]) -> None:
    """Logarithmic where all is positive; what diverged leaves the picture above."""
    values = np.concatenate([band.mean[np.isfinite(band.mean)] for band in bands])
    if not len(values) or values.min() <= 0:
        return
    place.set_yscale("log")
    ends = [band.mean[np.isfinite(band.mean)] for band in bands]
    starts = max(float(end[0]) for end in ends if len(end))
    top = max(starts, 10 * float(np.median([end[-1] for end in ends if len(end)])))
    place.set_ylim(values.min() / 1.3, min(values.max(), top) * 1.3)


def fit_time_axis(place: Axes, ends: Sequence[float]) -> None:
    """Give the short runs half of the axis where the long ones would crush them."""
    rising = sorted(ends)
    longest = rising[-1]
    gaps = [after / before for before, after in pairwise(rising) if before > 0]
    widest = max(gaps, default=1.0)
    if widest < _GAP or longest < _ORDERS_APART * rising[0]:
        place.set_xlim(0, longest * 1.02)
        return
    turn = rising[len(rising) - len(gaps) - 1 + gaps.index(widest)] * 1.15
    scale = (1 - _SHORT_PART) / (longest - turn)

    def forward(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, float)
        return np.where(
            x <= turn, _SHORT_PART * x / turn, _SHORT_PART + scale * (x - turn)
        )

    def inverse(y: np.ndarray) -> np.ndarray:
        y = np.asarray(y, float)
        return np.where(
            y <= _SHORT_PART, turn * y / _SHORT_PART, turn + (y - _SHORT_PART) / scale
        )

    place.set_xscale("function", functions=(forward, inverse))
    place.set_xlim(0, longest * 1.02)
    ticks = [*_ticks(0, turn * 0.95), *_ticks(turn * 1.5, longest)]
    place.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    place.axvline(turn, color="0.55", linewidth=0.8, linestyle=(0, (2, 2)))
    place.annotate(
        "scale changes",
        (turn, 1.0),
        xycoords=("data", "axes fraction"),
        fontsize=6,
        color="0.4",
        ha="center",
        va="bottom",
    )


def _ticks(low: float, high: float) -> list[float]:
    """Three or so round numbers in a part of an axis."""
    step = 10 ** math.floor(math.log10((high - low) / 2))
    for factor in (1, 2, 5, 10):
        if (high - low) / (factor * step) <= 3.5:
            step *= factor
            break
    first = math.ceil(low / step) * step
    count = int((high - first) / step) + 1
    return [float(f"{first + i * step:.6g}") for i in range(count)]


def plain(label: str) -> str:
    """Text of a store in a legend: not too long, and shown whatever it begins with."""
    short = label if len(label) <= 40 else label[:39] + "…"
    short = short.replace("$", r"\$")  # never a formula
    return f"\u200b{short}" if short.startswith("_") else short
