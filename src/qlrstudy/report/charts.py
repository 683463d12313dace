"""What is drawn, decided once: figures and page draw the same charts.

A chart has one or more horizontal and vertical axes and holds every series' values on
each. A figure shows all of them, a panel for each pair; on the page a reader chooses.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from qlrstudy.report import profiles
from qlrstudy.report.groups import Group, Section, file_name
from qlrstudy.report.statistics import ACCURACIES, LOSSES, Curve, Estimate
from qlrstudy.report.styles import MARKERS, Style, algorithm_order, style
from qlrstudy.report.sweeps import Sweep

# AdamQLR without a part of it, and the whole that it is compared with.
_ABLATED = frozenset({"adamqlr-hessian", "adamqlr-undamped", "sgdqlr"})
_WHOLE = frozenset({"adamqlr-tuned", "adamqlr-untuned", "adamqlr"})
# Ends that differ by more share no linear axis; nor do values of a sweep.
_TIMES_APART, _VALUES_APART = 8.0, 3.0
# Final losses so many times the median of all are out of the picture.
_DIVERGED = 1000.0
# In a chart of more, all but a few are muted: ours, Adam, and so many of the best.
_MOST_LOUD, _BEST = 8, 3
# Of the markers on a curve, about.
_MARKS = 6
# Lines of a sweep fade to this from the first to the last.
_FAINTEST = 0.35

Values = np.ndarray
Curves = Mapping[Group, Curve | None]


class Axis(NamedTuple):
    """One way to look at the series of a chart.

    Attributes:
        key: of the series' values.
        label: in words, with the unit.
        log: whether it is logarithmic, until a reader wishes otherwise.
        least, most: of what is shown; `None` for all there is. Where a series goes
            further, a mark at the edge says so.
        fixed: whether it goes from the least to the most, whatever there is to show.
        ticks: where it has marks; none for round numbers.
        printed: whether figures have it.
    """

    key: str
    label: str
    log: bool = False
    least: float | None = None
    most: float | None = None
    fixed: bool = False
    ticks: tuple[float, ...] = ()
    printed: bool = True


class Series(NamedTuple):
    """What a chart shows of one algorithm, in one style.

    Attributes:
        algorithm: its name, by which a reader switches it off.
        title: in the legend.
        style: its colour, dash and marker.
        x, y, error: values by the key of an axis, all of one length; a series need not
            have all of a chart's vertical axes, nor errors.
        opacity: of all that is drawn.
        muted: whether it is grey, so that others stand out, until a reader points at
            it.
    """

    algorithm: str
    title: str
    style: Style
    x: Mapping[str, Values]
    y: Mapping[str, Values]
    error: Mapping[str, Values] = {}
    opacity: float = 1.0
    muted: bool = False

    @property
    def marks(self) -> range:
        """The points of a curve that have a marker."""
        count = len(next(iter(self.x.values())))
        return range(0, count, max(1, count // _MARKS))


class Chart(NamedTuple):
    """A figure, and what a card of the page lets a reader choose from.

    Attributes:
        name: of its files: letters, digits and dashes.
        title: above the figure.
        card: the heading on the page; charts that share one share a card.
        kind: curves with bands and a few markers; stairs; points with error bars;
            the same joined by a line (a sweep); or a path in the plane.
        x, y: its axes; a reader sees the first of each.
        series: in the order of the legend; the first are drawn above the others.
        background: grey lines behind them, as arrays of two columns.
        printed: whether it is a figure too.
    """

    name: str
    title: str
    card: str
    kind: Literal["curves", "stairs", "points", "sweep", "path"]
    x: tuple[Axis, ...]
    y: tuple[Axis, ...]
    series: tuple[Series, ...]
    background: tuple[Values, ...] = ()
    printed: bool = True


def section_charts(
    part: Section, evaluations: Curves, evolutions: Curves
) -> Iterator[Chart]:
    """Every chart that a section's runs allow."""
    whole = part.shape is None  # others have much of the same, too much to print
    groups = part.groups
    losses = {group.algorithm: group.finals["test_loss"].value for group in groups}
    for card, kind, names, curves, printed in (
        ("Loss and accuracy", "loss", _by_use(LOSSES), evaluations, True),
        ("Loss and accuracy", "accuracy", _by_use(ACCURACIES), evaluations, True),
        (
            "Step size and damping",
            "evolution",
            ("step_size", "damping"),
            evolutions,
            whole,
        ),
    ):
        series = tuple(muted(list(_curves(groups, curves, names)), losses))
        if series:
            name = f"{part.key}-{kind}"
            yield curve_chart(name, part.title, card, series, names, printed)
    run = {group.algorithm for group in groups}
    if whole and run & _ABLATED and run & _WHOLE:
        family = {*_ABLATED, *_WHOLE, profiles.TUNED}
        names = ("test_loss", "training_loss")
        ablations = [group for group in groups if group.algorithm in family]
        series = tuple(_curves(ablations, evaluations, names))
        title = f"Ablations: {part.title}"
        yield curve_chart(f"{part.key}-ablations", title, "", series, names)
    if len(groups) > 1:
        yield _cost(part, printed=whole)


def muted(series: Sequence[Series], badness: Mapping[str, float]) -> list[Series]:
    """The series, with those muted that few will look for.

    Args:
        series: of a chart.
        badness: of each algorithm, the best least.
    """
    if len(series) <= _MOST_LOUD:
        return list(series)
    ours = {name for name in badness if name == profiles.TUNED or "qlr" in name}
    others = sorted(badness.keys() - ours, key=lambda name: (badness[name], name))
    loud = ours | set(others[:_BEST])
    marked = [one._replace(muted=one.algorithm not in loud) for one in series]
    return sorted(marked, key=lambda one: one.muted)


def sweep_chart(sweep: Sweep) -> Chart:
    """Final losses along a sweep, a line for each batch."""
    task = sweep.lines[0].groups[0].runs[0].titles[0]
    place = sweep.place
    words = ("sensitivity", place.task, place.scale, str(place.budget))
    setting = sweep.setting.replace("_", " ")
    opacities = np.linspace(1.0, _FAINTEST, len(sweep.lines)).tolist()
    own = style(sweep.algorithm)
    series = tuple(
        Series(
            sweep.algorithm,
            line.shape or sweep.title,
            own._replace(dash=(), marker=list(MARKERS)[number % len(MARKERS)]),
            {"value": np.array(line.values, float)},
            *_ends(line.groups, LOSSES),
            opacity=opacities[number],
        )
        for number, line in enumerate(sweep.lines)
    )
    values = np.concatenate([one.x["value"] for one in series])
    return Chart(
        file_name(*words, sweep.algorithm, sweep.setting),
        f"Sensitivity: {sweep.title}, {task}, {place.budget}",
        f"Sensitivity: {sweep.title}, {setting}",
        "sweep",
        (Axis("value", setting, _spans(values, _VALUES_APART)),),
        tuple(
            _final_axis(name, [one.y[name] for one in series])
            for name in _by_use(LOSSES)
        ),
        series,
    )


def profile_chart(cells: Sequence[profiles.Cell]) -> Chart | None:
    """Share of cells solved, against how much slower than the fastest method.

    One cell has no shares: each method solves all of it or nothing.
    """
    if len(cells) < 2:
        return None
    grid = np.geomspace(1.0, profiles.LARGEST_RATIO, 121)
    ratios = {unit: profiles.ratios(cells, unit) for unit in ("seconds", "steps")}
    shares = {
        unit: {
            name: np.array([profiles.profile(own, ratio) for ratio in grid])
            for name, own in found.items()
        }
        for unit, found in ratios.items()
    }
    titles = {n: m.group.title for cell in cells for n, m in cell.methods.items()}
    series = tuple(
        Series(
            name,
            titles[name],
            style(name),
            {"ratio": grid},
            {unit: own[name] for unit, own in shares.items()},
        )
        for name in sorted(titles, key=algorithm_order)
    )
    worse = {name: -profiles.area(own) for name, own in ratios["seconds"].items()}
    label = f"share of {len(cells)} cells solved"
    return Chart(
        "profiles",
        "Performance profiles against a tuned Adam",
        "Performance profiles against a tuned Adam",
        "stairs",
        (
            Axis(
                "ratio",
                "time or steps over the fastest method's",
                log=True,
                least=1.0,
                most=profiles.LARGEST_RATIO,
                fixed=True,
                ticks=(1.0, 1.5, 2.0, 3.0, 4.0),
            ),
        ),
        (
            Axis("seconds", f"{label}, by time", least=-0.03, most=1.03, fixed=True),
            Axis("steps", f"{label}, by steps", least=-0.03, most=1.03, fixed=True),
        ),
        tuple(muted(series, worse)),
    )


def _curves(
    groups: Sequence[Group], curves: Curves, names: Sequence[str]
) -> Iterator[Series]:
    for group in groups:
        curve = curves[group]
        if curve is None or not any(name in curve.bands for name in names):
            continue
        own = {name: curve.bands[name] for name in names if name in curve.bands}
        yield Series(
            group.algorithm,
            group.title,
            style(group.algorithm),
            {"seconds": curve.seconds, "steps": curve.steps, "epochs": curve.epochs},
            {name: band.mean for name, band in own.items()},
            {name: band.error for name, band in own.items()},
        )


def curve_chart(
    name: str,
    title: str,
    card: str,
    series: tuple[Series, ...],
    names: Sequence[str],
    printed: bool = True,
) -> Chart:
    """Curves along training time, steps or epochs."""
    log = {
        key: _spans(np.array([one.x[key][-1] for one in series]), _TIMES_APART)
        for key in ("seconds", "steps", "epochs")
    }
    known = [name for name in names if any(name in one.y for one in series)]
    return Chart(
        name,
        title,
        card,
        "curves",
        (
            Axis("seconds", "training time (s)", log["seconds"]),
            Axis("steps", "steps", log["steps"]),
            Axis("epochs", "epochs", log["epochs"], printed=False),
        ),
        tuple(
            _value_axis(name, [one.y[name] for one in series if name in one.y])
            for name in known
        ),
        series,
        printed=printed,
    )


def _value_axis(name: str, curves: Sequence[Values]) -> Axis:
    if name.endswith("accuracy"):
        return Axis(name, _words(name))
    if not name.endswith("loss"):
        return Axis(name, _words(name), log=True)
    # Without what diverged, which would crush all others.
    known = [curve[np.isfinite(curve)] for curve in curves]
    known = [curve for curve in known if len(curve)]
    if not known:
        return Axis(name, _words(name), True, least=profiles.LEAST_LOSS)
    starts = [float(curve[0]) for curve in known]
    ends = [float(curve[-1]) for curve in known]
    most = _limit(max([*starts, 10 * float(np.median(ends))]))
    # Single precision cannot tell lower losses from zero.
    return Axis(name, _words(name), True, least=profiles.LEAST_LOSS, most=most)


def _limit(most: float) -> float | None:
    """Of an axis; none where what is shown has none."""
    return most if math.isfinite(most) else None


def _final_axis(name: str, series: Sequence[Values]) -> Axis:
    typical = float(np.nanmedian(np.concatenate(series)))
    most = _limit(_DIVERGED * max(typical, profiles.LEAST_LOSS))
    label = f"final {_words(name)}"
    return Axis(name, label, True, least=profiles.LEAST_LOSS, most=most)


def _cost(part: Section, printed: bool) -> Chart:
    """What was reached, against what it took."""
    series = tuple(
        Series(
            group.algorithm,
            group.title,
            style(group.algorithm),
            {
                "seconds": np.array([group.finals["training_seconds"].value]),
                "steps": np.array([group.finals["step"].value]),
            },
            *_ends([group], ("test_loss",)),
        )
        for group in part.groups
    )
    losses = [one.y["test_loss"] for one in series]
    return Chart(
        f"{part.key}-cost",
        f"Cost against quality: {part.title}",
        "Cost against quality",
        "points",
        (
            Axis("seconds", "training time (s)", log=True),
            Axis("steps", "steps", log=True),
        ),
        (_final_axis("test_loss", losses),),
        series,
        printed=printed,
    )


def _ends(
    groups: Sequence[Group], names: Sequence[str]
) -> tuple[dict[str, Values], dict[str, Values]]:
    """Final values and their errors, by quantity."""
    found: dict[str, list[Estimate]] = {
        name: [group.finals[name] for group in groups] for name in names
    }
    return (
        {name: np.array([end.value for end in own]) for name, own in found.items()},
        {name: np.array([end.error for end in own]) for name, own in found.items()},
    )


def _by_use(names: Sequence[str]) -> list[str]:
    """Of the three splits the test first: it is what a reader asks for."""
    return sorted(names, key=lambda name: not name.startswith("test"))


def _spans(values: Values, times: float) -> bool:
    """Whether positive values differ by more than so many times."""
    positive = values[values > 0]
    return len(positive) > 0 and bool(positive.max() > times * positive.min())


def _words(name: str) -> str:
    return name.replace("_", " ")
