"""The page: one file with everything in it, for any browser, with no network.

Python decides what is shown and hands it over as JSON; the scripts in `assets` draw it.
Text from a store only ever becomes the text of an element, and the JSON cannot end the
script element that holds it.
"""

import importlib.resources
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from qlrstudy.report import profiles, render
from qlrstudy.report.comparison import Compared
from qlrstudy.report.contents import Contents
from qlrstudy.report.groups import Group, Section, command
from qlrstudy.report.statistics import Curve, Estimate
from qlrstudy.report.styles import algorithm_order, style
from qlrstudy.report.sweeps import Sweep
from qlrstudy.report.tables import Cell, Table, section_results

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
    page = _asset("index.html")
    for mark, text in parts.items():
        before, after = page.split(mark)
        page = before + text + after
    return page


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
            "damaged": len(found.loaded.damage),
        },
        "dates": [min(run.started for run in runs), max(run.started for run in runs)],
        "algorithms": _algorithms(found),
        "sections": [_section(found, part) for part in found.sections],
        "profiles": _profiles(found.cells),
        "verdicts": _verdicts(found),
        "tables": [_table(table) for table in found.tables],
        "missing": found.missing,
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
        name: {
            "title": titles[name],
            "colour": style(name).colour,
            "dash": list(style(name).dash),
            "marker": style(name).marker,
        }
        for name in sorted(titles, key=algorithm_order)
    }


def _section(found: Contents, part: Section) -> dict[str, Any]:
    swept = [sweep for sweep in found.sweeps if sweep.place == part.place]
    return {
        "id": part.key,
        "title": part.title,
        "task": part.task_title,
        "whole": part.shape is None,
        "caveats": list(part.place.caveats),
        "groups": [_group(found, group) for group in part.groups],
        "sweeps": [_sweep(sweep) for sweep in swept] if part.shape is None else [],
        "table": _table(section_results(part)),
    }


def _group(found: Contents, group: Group) -> dict[str, Any]:
    names = ("training_loss", "validation_loss", "test_loss", "test_accuracy")
    finals = {name: group.finals[name] for name in names}
    finals |= {name: group.finals[name] for name in ("step", "training_seconds")}
    return {
        "algorithm": group.algorithm,
        "runs": len(group.runs),
        "diverged": group.diverged,
        "unfinished": group.unfinished,
        "seeds": [run.seed for run in group.runs],
        "setting": dict(group.setting),
        "command": command(group),
        "finals": {name: _estimate(value) for name, value in finals.items()},
        "evaluations": _curve(found.evaluations[group]),
        "evolution": _curve(found.evolutions[group]),
    }


def _curve(curve: Curve | None) -> dict[str, Any] | None:
    if curve is None:
        return None
    return {
        "steps": _numbers(curve.steps),
        "epochs": _numbers(curve.epochs),
        "seconds": _numbers(curve.seconds),
        "bands": {
            name: [_numbers(band.mean), _numbers(band.error)]
            for name, band in curve.bands.items()
        },
    }


def _sweep(sweep: Sweep) -> dict[str, Any]:
    quantities = ("training_loss", "validation_loss", "test_loss")
    return {
        "algorithm": sweep.algorithm,
        "setting": sweep.setting.replace("_", " "),
        "lines": [
            {
                "label": line.shape,
                "values": list(line.values),
                "diverged": sum(group.diverged for group in line.groups),
                "finals": {
                    name: [_estimate(g.finals[name]) for g in line.groups]
                    for name in quantities
                },
            }
            for line in sweep.lines
        ],
    }


def _profiles(cells: Sequence[profiles.Cell]) -> dict[str, Any] | None:
    if not cells:
        return None
    units = {unit: profiles.ratios(cells, unit) for unit in ("seconds", "steps")}
    grid = np.geomspace(1.0, profiles.LARGEST_RATIO, 121)
    return {
        "cells": [cell.title for cell in cells],
        "ratios": _numbers(grid),
        "shares": {
            unit: {
                name: _numbers(np.array([profiles.profile(own, r) for r in grid]))
                for name, own in ratios.items()
            }
            for unit, ratios in units.items()
        },
        "areas": {
            unit: {name: profiles.area(own) for name, own in ratios.items()}
            for unit, ratios in units.items()
        },
    }


def _verdicts(found: Contents) -> dict[str, int]:
    words = [verdict.word for verdict in found.verdicts]
    return {word: words.count(word) for word in ("agrees", "explained", "differs")}


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


def _cell(cell: Cell) -> list[Any]:
    shown = render.text(cell)
    if cell is None or isinstance(cell, str):
        return [shown]
    value = cell.ours.value if isinstance(cell, Compared) else cell
    value = value.value if isinstance(value, Estimate) else value
    # JSON has no infinity; what is sorted by it comes first or last all the same.
    return [shown, _number(max(-_HUGE, min(_HUGE, value)))]


def _estimate(value: Estimate) -> list[float | None]:
    return [_number(value.value), _number(value.error)]


def _numbers(values: np.ndarray) -> list[float | None]:
    return [_number(value) for value in values.tolist()]


def _number(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
