"""The figures that are not of one section: paths, sweeps and performance profiles."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from qlrstudy.report import profiles
from qlrstudy.report.drawing import axes, figure, plain
from qlrstudy.report.figures import plain_title
from qlrstudy.report.groups import Section
from qlrstudy.report.statistics import Estimate
from qlrstudy.report.styles import MARKERS, style
from qlrstudy.report.sweeps import Sweep

# The valley of the paper's figure; nothing else in the study has two parameters.
_VALLEY = "rosenbrock"


def paths(part: Section) -> Figure | None:
    """Trajectories over Rosenbrock's valley, the first seed of each algorithm."""
    if part.place.task != _VALLEY:
        return None
    drawn = [(group, group.runs[0].positions) for group in part.groups]
    drawn = [(group, path) for group, path in drawn if path is not None]
    if not drawn:
        return None
    made = figure(7.0, 5.6)
    (place,) = axes(made, 1, 1)
    _contours(place)
    for group, path in drawn:
        look = style(group.algorithm)
        place.plot(
            path[:, 0],
            path[:, 1],
            color=look.colour,
            dashes=look.dash or (None, None),
            marker=look.marker,
            markersize=4,
            markevery=max(1, len(path) // 20),
            linewidth=1.3,
            label=plain(group.title),
        )
    x, y = drawn[0][1][0]
    place.plot(x, y, "o", color="black", markersize=7, fillstyle="none")
    place.plot(1, 1, "*", color="black", markersize=11)
    place.set_xlabel("x")
    place.set_ylabel("y")
    handles, labels = place.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=4)
    made.suptitle(plain_title(f"{part.title}: the first seed of each"), fontsize=10)
    return made


def _contours(place: Axes) -> None:
    x, y = np.meshgrid(np.linspace(-2, 2, 240), np.linspace(-1.6, 3.2, 240))
    height = (1 - x) ** 2 + 100 * (y - x**2) ** 2
    levels = np.geomspace(0.1, 3000, 12)
    place.contour(x, y, height, levels, colors="0.75", linewidths=0.6)
    place.set_xlim(-2, 2)
    place.set_ylim(-1.6, 3.2)


def sweep_figures(swept: Sequence[Sweep]) -> Iterator[tuple[str, Figure]]:
    """Final losses along each sweep, by the name of its files."""
    for sweep in swept:
        task = sweep.lines[0].groups[0].runs[0].titles[0]
        made = figure(8.0, 3.3)
        places = axes(made, 1, 2)
        for place, quantity in zip(places, ("training_loss", "test_loss"), strict=True):
            _sweep(place, sweep, quantity)
        if len(sweep.lines) > 1:
            handles, labels = places[0].get_legend_handles_labels()
            made.legend(handles, labels, loc="outside lower center", ncols=4)
        title = f"Sensitivity: {sweep.title}, {task}, {sweep.place.budget}"
        made.suptitle(plain_title(title), fontsize=10)
        where = [sweep.place.task, sweep.place.scale, str(sweep.place.budget)]
        text = "-".join(["sensitivity", *where, sweep.algorithm, sweep.setting])
        name = "".join(c if c.isascii() and c.isalnum() else "-" for c in text)
        yield name[:140], made


def _sweep(place: Axes, sweep: Sweep, quantity: str) -> None:
    look = style(sweep.algorithm)
    shades = np.linspace(1.0, 0.35, len(sweep.lines))
    for number, (line, shade) in enumerate(zip(sweep.lines, shades, strict=True)):
        ends = [group.finals[quantity] for group in line.groups]
        place.errorbar(
            line.values,
            [end.value for end in ends],
            yerr=[end.error for end in ends],
            color=look.colour,
            alpha=float(shade),
            marker=MARKERS[number % len(MARKERS)],
            markersize=5,
            linewidth=1.3,
            capsize=2,
            label=plain(line.shape or sweep.title),
        )
    _fit(place, sweep, quantity)
    place.set_xlabel(sweep.setting.replace("_", " "))
    place.set_ylabel(f"final {quantity.replace('_', ' ')}")


def _fit(place: Axes, sweep: Sweep, quantity: str) -> None:
    values = [value for line in sweep.lines for value in line.values]
    if min(values) > 0 and max(values) / min(values) > 3:
        place.set_xscale("log")
    ends: list[Estimate] = [
        group.finals[quantity] for line in sweep.lines for group in line.groups
    ]
    losses = [end.value for end in ends]
    if min(losses) > 0 and max(losses) / min(losses) > 3:
        place.set_yscale("log")


def profile_figure(cells: Sequence[profiles.Cell]) -> Figure | None:
    """Share of cells solved, against how much slower than the fastest method."""
    if not cells:
        return None
    made = figure(8.0, 3.8)
    grid = np.geomspace(1, profiles.LARGEST_RATIO, 200)
    places = axes(made, 1, 2, sharey="row")
    for place, unit in zip(places, ("seconds", "steps"), strict=True):
        for name, own in profiles.ratios(cells, unit).items():
            look = style(name)
            title = next(
                cell.methods[name].group.title for cell in cells if name in cell.methods
            )
            place.step(
                grid,
                [profiles.profile(own, ratio) for ratio in grid],
                where="post",
                color=look.colour,
                dashes=look.dash or (None, None),
                marker=look.marker,
                markersize=4,
                markevery=40,
                linewidth=1.4,
                label=plain(title),
            )
        place.set_xscale("log")
        place.set_xticks([1, 1.5, 2, 3, 4], ["1", "1.5", "2", "3", "4"])
        place.set_xticks([], minor=True)
        place.set_xlim(1, profiles.LARGEST_RATIO)
        place.set_ylim(-0.03, 1.03)
        place.set_xlabel(f"{unit} to target, over the fastest method's")
    places[0].set_ylabel(f"share of {len(cells)} cells solved")
    handles, labels = places[0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=4)
    made.suptitle("Performance profiles against a tuned Adam", fontsize=10)
    return made
