"""Who wins: the tables of the ranking and of the performance profiles."""

import math
from collections.abc import Sequence

from qlrstudy.report import profiles
from qlrstudy.report.ranking import Ranking
from qlrstudy.report.tables import Table, runs_of

_NO_CELLS = (
    "no task on which Adam was run with at least three learning rates at one batch "
    "size and budget, so there is no tuned Adam to compare with"
)


def ranks(found: Ranking | None) -> Table:
    """The ranking, with wins, ties and losses against its reference."""
    header = ("algorithm", "comparisons", "loss ratio", "from", "to")
    header += ("best", "wins", "ties", "losses")
    title = "Ranking by final test loss"
    if found is None:
        missing = ("no two algorithms were run on the same task and budget",)
        return Table("ranking", title, header, (), "", missing)
    rows = []
    for rank in found.ranks:
        own = [score for score in rank.scores if score is not None]
        best = sum(score.best for score in own)
        record = found.records[found.reference][rank.algorithm]
        counts = map(float, (best, *record))
        interval = rank.ratio, rank.low, rank.high
        rows.append((rank.title, float(len(own)), *interval, *counts))
    note = (
        f"Geometric mean of the final test loss over that of {found.reference_title}, "
        "at most 100, and its 95 % interval of bootstrap samples over comparisons and "
        "runs. Best: in how many comparisons it has the least loss, or cannot be told "
        f"from it. Wins, ties and losses against {found.reference_title}."
    )
    return Table("ranking", title, header, tuple(rows), note)


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
