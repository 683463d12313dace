"""The figures of one section: curves, evolutions, ablations, cost against quality."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from qlrstudy.report.drawing import (
    axes,
    draw_band,
    figure,
    fit_loss_axis,
    fit_time_axis,
    plain,
)
from qlrstudy.report.groups import Group, Section
from qlrstudy.report.statistics import Curve
from qlrstudy.report.styles import style

Curves = Mapping[Group, Curve | None]
ABLATIONS = (
    "adamqlr-tuned",
    "adamqlr-untuned",
    "adamqlr-hessian",
    "adamqlr-undamped",
    "sgdqlr",
    "adamqlr",
)
_TIME, _STEPS = "training time (s)", "steps"


def section_figures(
    part: Section, evaluations: Curves, evolutions: Curves
) -> Iterator[tuple[str, Figure]]:
    """Every figure that a section's runs allow, by the name of its files."""
    for kind in ("loss", "accuracy"):
        names = [f"{split}_{kind}" for split in ("training", "validation", "test")]
        made = _panels(part.groups, evaluations, names, part.title)
        if made is not None:
            yield f"{part.key}-{kind}", made
    if part.shape is not None:
        return  # the same algorithms as in the section of all shapes
    made = _panels(part.groups, evolutions, ["step_size", "damping"], part.title)
    if made is not None:
        yield f"{part.key}-evolution", made
    family = tuple(group for group in part.groups if group.algorithm in ABLATIONS)
    if len(family) > 1:
        names = ["training_loss", "test_loss"]
        made = _panels(family, evaluations, names, f"Ablations: {part.title}")
        if made is not None:
            yield f"{part.key}-ablations", made
    if len(part.groups) > 1:
        yield f"{part.key}-cost", _cost(part)


def _panels(
    groups: Sequence[Group], curves: Curves, names: Sequence[str], title: str
) -> Figure | None:
    """A row for each quantity; against time on the left, against steps on the right."""
    known = {group: curve for group in groups if (curve := curves[group]) is not None}
    shown = [n for n in names if any(n in curve.bands for curve in known.values())]
    if not shown:
        return None
    legend_rows = -(-len(known) // 4)
    made = figure(8.0, 2.5 * len(shown) + 0.3 + 0.22 * legend_rows)
    places = axes(made, len(shown), 2, sharey="row")
    for row, name in enumerate(shown):
        having = {g: c for g, c in known.items() if name in c.bands}
        _fill(places[2 * row], having, name, _TIME)
        _fill(places[2 * row + 1], having, name, _STEPS)
        places[2 * row].set_ylabel(name.replace("_", " "))
    _legend(made, places)
    made.suptitle(plain_title(title), fontsize=10)
    return made


def _fill(place: Axes, having: Mapping[Group, Curve], name: str, axis: str) -> None:
    ends = []
    for group, curve in having.items():
        x = curve.seconds if axis == _TIME else curve.steps
        draw_band(place, x, curve.bands[name], group.algorithm, group.title)
        ends.append(float(np.nanmax(x)))
    place.set_xlabel(axis)
    fit_time_axis(place, ends)
    if not name.endswith("accuracy"):
        fit_loss_axis(place, [curve.bands[name] for curve in having.values()])


def _legend(made: Figure, places: Sequence[Axes]) -> None:
    """One for all panels, below them."""
    entries = {}
    for place in places:
        handles, labels = place.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    made.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=4)


def _cost(part: Section) -> Figure:
    """What was reached, against what it took."""
    made = figure(8.0, 3.6)
    left, right = axes(made, 1, 2, sharey="row")
    for group in part.groups:
        loss, look = group.finals["test_loss"], style(group.algorithm)
        for place, quantity in ((left, "training_seconds"), (right, "step")):
            spent = group.finals[quantity]
            place.errorbar(
                spent.value,
                loss.value,
                xerr=spent.error,
                yerr=loss.error,
                color=look.colour,
                marker=look.marker,
                markersize=7,
                linestyle="none",
                elinewidth=0.9,
                label=plain(group.title),
            )
    left.set_ylabel("final test loss")
    for place, label in ((left, _TIME), (right, _STEPS)):
        place.set_xlabel(label)
        place.set_xscale("log")
        place.set_yscale("log")
    made.suptitle(plain_title(f"Cost against quality: {part.title}"), fontsize=10)
    handles, labels = left.get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=4)
    return made


def plain_title(title: str) -> str:
    """Text of a store above a figure: not too long, and never a formula."""
    short = title if len(title) <= 110 else title[:109] + "…"
    return short.replace("$", r"\$")
