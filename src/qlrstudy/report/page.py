"""The page: one file with everything in it, for any browser, with no network.

Python decides what is shown and hands it over as JSON; the scripts in `assets` draw it.
Text from a store only ever becomes the text of an element, and the JSON cannot end the
script element that holds it.
"""

import importlib.resources
import json
import math
import re
from typing import Any

import numpy as np

from qlrstudy.report import render
from qlrstudy.report.axes import view
from qlrstudy.report.charts import Axis, Chart, Series
from qlrstudy.report.comparison import Compared
from qlrstudy.report.contents import Contents, Part
from qlrstudy.report.groups import Group, command
from qlrstudy.report.ranking import Ranking, Score
from qlrstudy.report.scales import AxisScale, View, fitted
from qlrstudy.report.statistics import Estimate
from qlrstudy.report.styles import MARKERS, Style, algorithm_order, style
from qlrstudy.report.tables import Entry, Table, section_results

_SCRIPTS = ("format.js", "elements.js", "scales.js", "chart.js", "views.js", "main.js")
# Drawn, so that a reader sees no difference to more.
_DIGITS = 5
_HUGE = 1e300


def html(found: Contents) -> str:
    """The whole page."""
    content = json.dumps(data(found), allow_nan=False, separators=(",", ":"))
    parts = {
        "/*STYLE*/": _asset("style.css"),
        "/*DATA*/": _inert(content),
        "/*SCRIPT*/": "\n".join(_asset(name) for name in _SCRIPTS),
    }
    # All at once: what one part says must not be taken for the mark of another.
    marks = "|".join(map(re.escape, parts))
    return re.sub(marks, lambda mark: parts[mark[0]], _asset("index.html"))


def data(found: Contents) -> dict[str, Any]:
    """What the scripts draw."""
    runs = found.loaded.runs
    return {
        "store": found.store.name,
        "counts": {
            "runs": sum(run.complete for run in runs),
            "tasks": len({run.task for run in runs}),
            "algorithms": len({run.algorithm for run in runs}),
            "diverged": sum(run.status == "diverged" for run in runs),
            "unfinished": sum(not run.complete for run in runs),
        },
        "dates": [min(run.started for run in runs), max(run.started for run in runs)],
        "markers": MARKERS,
        "algorithms": _algorithms(found),
        "sections": [_part(part) for part in found.parts],
        "ranking": None if found.ranking is None else _ranking(found.ranking),
        "charts": [_chart(chart) for chart in found.overview_charts],
        "verdicts": _verdicts(found),
        "tables": [_table(table) for table in found.tables],
        "warnings": found.warnings,
    }


def _asset(name: str) -> str:
    folder = importlib.resources.files("qlrstudy.report") / "assets"
    return (folder / name).read_text("utf-8")


def _inert(content: str) -> str:
    """JSON that no parser of HTML, nor an old one of JavaScript, takes for an end."""
    marks = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
    marks |= {"\u2028": "\\u2028", "\u2029": "\\u2029"}
    for character, code in marks.items():
        content = content.replace(character, code)
    return content


def _algorithms(found: Contents) -> dict[str, Any]:
    titles = {group.algorithm: group.title for group in found.groups}
    return {
        name: {"title": titles[name], **_style(style(name))}
        for name in sorted(titles, key=algorithm_order)
    }


def _style(own: Style) -> dict[str, Any]:
    return {"colour": own.colour, "dash": list(own.dash), "marker": own.marker}


def _ranking(found: Ranking) -> dict[str, Any]:
    intervals = np.array([(rank.low, rank.ratio, rank.high) for rank in found.ranks])
    ends = fitted(np.append(intervals, 1.0), log=True, room=0.03)
    assert ends is not None
    places = AxisScale(View(True, *ends), 0.0, 1.0)
    return {
        "reference": found.reference,
        "referenceTitle": found.reference_title,
        "contests": [
            {"section": c.section.key, "task": c.task, "detail": c.detail}
            for c in found.contests
        ],
        "ranks": [
            {
                "algorithm": rank.algorithm,
                "interval": _numbers(places(interval)),
                "text": f"{render.short(rank.ratio)} "
                f"({render.short(rank.low)} to {render.short(rank.high)})",
                "best": rank.best,
                "scores": [
                    None if score is None else _score(score) for score in rank.scores
                ],
            }
            for rank, interval in zip(found.ranks, intervals, strict=True)
        ],
        "one": _number(float(places(np.array(1.0)))),
        "records": found.records,
    }


def _score(score: Score) -> dict[str, Any]:
    return {
        "text": render.short(score.ratio),
        "loss": render.number(score.loss),
        "ratio": _number(score.ratio),
        "shade": round(score.shade, 3),
        "best": score.best,
    }


def _part(part: Part) -> dict[str, Any]:
    section = part.section
    return {
        "id": section.key,
        "title": section.title,
        "task": section.task_title,
        "detail": section.title.removeprefix(f"{section.task_title}, "),
        "caveats": list(section.place.caveats),
        "charts": [_chart(chart) for chart in part.charts if chart.card],
        "groups": [_group(group) for group in section.groups],
        "table": _table(section_results(section)),
    }


def _group(group: Group) -> dict[str, Any]:
    return {
        "algorithm": group.algorithm,
        "runs": len(group.runs),
        "diverged": group.diverged,
        "unfinished": group.unfinished,
        "seeds": [run.seed for run in group.runs],
        "setting": dict(group.setting),
        "command": command(group),
    }


def _chart(chart: Chart) -> dict[str, Any]:
    return {
        "name": chart.name,
        "title": chart.title,
        "card": chart.card,
        "kind": chart.kind,
        "x": [_axis(chart, axis) for axis in chart.x],
        "y": [_axis(chart, axis) for axis in chart.y],
        "series": [_series(one) for one in chart.series],
        "background": [[_numbers(c) for c in line.T] for line in chart.background],
    }


def _axis(chart: Chart, axis: Axis) -> dict[str, Any]:
    """An axis with what it shows, of both kinds where a reader can switch."""
    kinds = (False, True) if chart.kind == "curves" else (axis.log,)
    views = {("log" if log else "linear"): view(chart, axis, log=log) for log in kinds}
    return {
        "key": axis.key,
        "label": axis.label,
        "log": axis.log,
        "views": {
            kind: None if own is None else {"ends": own[1:3], "ticks": own.ticks}
            for kind, own in views.items()
        },
    }


def _series(one: Series) -> dict[str, Any]:
    values = {
        name: {key: _numbers(own) for key, own in getattr(one, name).items()}
        for name in ("x", "y", "error")
    }
    own = {"algorithm": one.algorithm, "marks": list(one.marks), "muted": one.muted}
    own |= values
    if one.style != style(one.algorithm):
        own |= {"title": one.title, "style": _style(one.style), "opacity": one.opacity}
    return own


def _verdicts(found: Contents) -> dict[str, int]:
    words = [verdict.word for verdict in found.verdicts]
    known = ("agrees", "undecided", "explained", "differs")
    return {word: words.count(word) for word in known}


def _table(table: Table) -> dict[str, Any]:
    """Cells as people read them, each with what it is sorted by."""
    return {
        "name": table.name,
        "title": table.title,
        "header": list(table.header),
        "rows": [[_cell(cell) for cell in row] for row in table.rows],
        "note": table.note,
        "missing": list(table.missing),
        "csv": render.comma_separated(table),
    }


def _cell(cell: Entry) -> list[Any]:
    shown = render.text(cell)
    if cell is None or isinstance(cell, str):
        return [shown]
    value = cell.ours.value if isinstance(cell, Compared) else cell
    value = value.value if isinstance(value, Estimate) else value
    # JSON has no infinity; what is sorted by it comes first or last all the same.
    return [shown, _number(max(-_HUGE, min(_HUGE, value)))]


def _numbers(values: np.ndarray) -> list[float | None]:
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
