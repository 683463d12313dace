"""The tables of performance profiles: over all cells, and cell by cell."""

import math
from collections.abc import Sequence

from qlrstudy.report import profiles
from qlrstudy.report.tables import Table, runs_of

_NO_CELLS = (
    "no task on which Adam was run with at least three learning rates at one batch "
    "size and budget, so there is no tuned Adam to compare with"
)


def profile_areas(cells: Sequence[profiles.Cell]) -> Table:
    """What the performance profiles come to."""
    seconds, steps = (profiles.ratios(cells, unit) for unit in ("seconds", "steps"))
    rows = []
    for name in seconds:
        methods = [cell.methods[name] for cell in cells if name in cell.methods]
        groups = [method.group for method in methods]
        rows.append(
            (
                groups[0].title,
                float(len(methods)),
                float(sum(math.isfinite(value) for value in seconds[name])),
                profiles.area(seconds[name]),
                profiles.area(steps[name]),
                profiles.geometric_mean([m.training_ratio for m in methods]),
                profiles.geometric_mean([m.hardest_ratio for m in methods]),
                profiles.geometric_mean([m.test_ratio for m in methods]),
                profiles.geometric_mean([m.cost for m in methods]),
                float(sum(group.diverged for group in groups)),
                float(sum(len(group.runs) for group in groups)),
            )
        )
    return Table(
        "profiles",
        "Against a tuned Adam, over all cells",
        (
            "algorithm",
            "cells",
            "reached the target",
            "area, time",
            "area, steps",
            "training loss ratio",
            "the same, hardest Adam",
            "test loss ratio",
            "cost of a step",
            "diverged",
            "runs",
        ),
        tuple(sorted(rows, key=lambda row: -row[3])),
        "Area under the performance profile for ratios up to 4 (1 is fastest in each "
        "cell); geometric means over cells of final loss, and seconds a step, over the "
        "tuned Adam's, whose rate has the least validation loss; the hardest Adam's "
        "has the least training loss.",
        () if rows else (_NO_CELLS,),
    )


def against_adam(cells: Sequence[profiles.Cell]) -> Table:
    """The same, cell by cell."""
    rows = [
        (
            cell.title,
            method.group.title,
            runs_of(method.group),
            method.seconds,
            method.steps,
            method.training_ratio,
            method.hardest_ratio,
            method.test_ratio,
            method.cost,
        )
        for cell in cells
        for method in cell.methods.values()
    ]
    return Table(
        "against-adam",
        "Against a tuned Adam, cell by cell",
        (
            "cell",
            "algorithm",
            "runs",
            "seconds to target",
            "steps to target",
            "training loss ratio",
            "the same, hardest Adam",
            "test loss ratio",
            "cost of a step",
        ),
        tuple(rows),
        "The target is what the tuned Adam reached in three quarters of the budget.",
        () if rows else (_NO_CELLS,),
    )
