"""Who wins: the tables of the ranking, of the tuned bars and of the profiles."""

import math
from collections.abc import Sequence

from qlrstudy.report import profiles
from qlrstudy.report.bars import Ratio, standings
from qlrstudy.report.one_rate import OneRate
from qlrstudy.report.ranking import Ranking
from qlrstudy.report.styles import KNOW_THE_END
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


def one_rates(found: OneRate | None) -> Table:
    """Adam's learning rates, each kept in all cells, over AdamQLR."""
    ratios = {} if found is None else found.ratios
    cells = "cells" if found is None else f"the {found.cells} cells"
    rows = [(f"{rate:g}", *ratio[1:]) for rate, ratio in ratios.items()]
    return Table(
        "one-rate",
        "One learning rate of Adam throughout, over AdamQLR",
        ("learning rate", "loss ratio", "from", "to", "median cell", "worst cell"),
        tuple(rows),
        "Geometric mean over cells of Adam's median final test loss with this rate in "
        "all of them, over that of AdamQLR, which has none; above 1 AdamQLR is better. "
        f"With 95 % intervals of bootstrap samples over {cells} and runs.",
        () if rows else ("two cells with AdamQLR and three shared rates of Adam",),
    )


def test_losses(cells: Sequence[profiles.Cell]) -> Table:
    """Final test losses over both bars, for the cells of each kind."""
    absent = Ratio(0, *[math.nan] * 5)
    rows = []
    for kind, own in _kinds(cells):
        for standing in standings(own):
            constant, scheduled = (
                ratio or absent for ratio in (standing.constant, standing.scheduled)
            )
            stopped = standing.stopped_constant, standing.stopped_scheduled
            rows.append(
                (
                    kind,
                    standing.title,
                    "yes" if standing.algorithm in KNOW_THE_END else "no",
                    float(standing.settings),
                    float(standing.cells),
                    *constant[1:],
                    float(scheduled.cells),
                    *scheduled[1:],
                    *((ratio or absent).value for ratio in stopped),
                    float(standing.diverged),
                    float(standing.runs),
                )
            )
    return Table(
        "test-losses",
        "Final test losses over two bars that are tuned in each cell",
        (
            "which cells",
            "algorithm",
            "knows the end",
            "settings",
            "cells",
            "over constant Adam",
            "from",
            "to",
            "median cell",
            "worst cell",
            "cells with a cosine",
            "over cosine AdamW",
            "from",
            "to",
            "median cell",
            "worst cell",
            "early stopping, over constant Adam",
            "early stopping, over cosine AdamW",
            "diverged",
            "runs",
        ),
        tuple(rows),
        "Geometric means over cells of the median final test loss over that of Adam "
        "with a constant rate, and of AdamW with warm-up and cosine, the rate of each "
        "chosen in each cell by validation loss; 95 % intervals of bootstrap samples "
        "over cells and runs. Early stopping reads each run, the bars' too, where its "
        "validation loss was least. Settings: how many each cell's was chosen from. "
        "Unseen are cells that nothing was chosen on.",
        () if rows else (_NO_CELLS,),
    )


def profile_areas(cells: Sequence[profiles.Cell]) -> Table:
    """What the performance profiles come to, for the cells of each kind."""
    rows = [
        (kind, *row) for kind, own in _kinds(cells) for row in _areas_of_methods(own)
    ]
    return Table(
        "profiles",
        "Against a tuned Adam, over all cells",
        (
            "which cells",
            "algorithm",
            "cells",
            "reached the target",
            "area, time",
            "area, steps",
            "training loss ratio",
            "the same, hardest Adam",
            "cost of a step",
        ),
        tuple(rows),
        "Area under the performance profile for ratios up to 4 (1 is fastest in each "
        "cell); geometric means over cells of final loss, and seconds a step, over the "
        "tuned Adam's, whose rate has the least validation loss; the hardest Adam's "
        "has the least training loss. Other work on a machine adds to its seconds.",
        () if rows else (_NO_CELLS,),
    )


def _kinds(
    cells: Sequence[profiles.Cell],
) -> list[tuple[str, Sequence[profiles.Cell]]]:
    """Those that nothing was chosen on apart from the rest, where there are any."""
    unseen = [cell for cell in cells if cell.unseen]
    rest = [cell for cell in cells if not cell.unseen]
    kinds = [("unseen", unseen), ("the others" if unseen else "all", rest)]
    return [kind for kind in kinds if kind[1]]


def _areas_of_methods(
    cells: Sequence[profiles.Cell],
) -> list[tuple[str, float, float, float, float, float, float, float]]:
    """A method's row of the table of profiles, the largest area in time first."""
    seconds, steps = (profiles.ratios(cells, unit) for unit in ("seconds", "steps"))
    rows = []
    for name in seconds:
        methods = [cell.methods[name] for cell in cells if name in cell.methods]
        rows.append(
            (
                methods[0].group.title,
                float(len(methods)),
                float(sum(math.isfinite(value) for value in seconds[name])),
                profiles.area(seconds[name]),
                profiles.area(steps[name]),
                profiles.geometric_mean([m.training_ratio for m in methods]),
                profiles.geometric_mean([m.hardest_ratio for m in methods]),
                profiles.geometric_mean([m.cost for m in methods]),
            )
        )
    return sorted(rows, key=lambda row: -row[3])


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
