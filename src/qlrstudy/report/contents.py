"""What a report shows, computed once, before any of it is written or drawn."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from qlrstudy.report import profiles, tables
from qlrstudy.report.comparison import STUDIES, Verdict, comparisons, verdicts
from qlrstudy.report.groups import Group, Section, groups, sections
from qlrstudy.report.load import Loaded, load
from qlrstudy.report.profile_tables import against_adam, profile_areas
from qlrstudy.report.statistics import Curve, evaluation_curve, evolution_curve
from qlrstudy.report.sweeps import Sweep, sweeps
from qlrstudy.report.tables import Table

# What is being done, how much of it, of how much.
Watch = Callable[[str, int, int], None]


class Contents(NamedTuple):
    """All that a report shows.

    Attributes:
        store: the directory it is of.
        loaded: its runs, and what is wrong with others.
        groups: runs that differ in their seed alone.
        sections: what is compared with what.
        sweeps: of one setting.
        cells: with a tuned Adam.
        verdicts: on every number that the paper has too.
        evaluations, evolutions: the curves of each group that a section shows.
        tables: also those that must stay empty.
    """

    store: Path
    loaded: Loaded
    groups: list[Group]
    sections: list[Section]
    sweeps: list[Sweep]
    cells: list[profiles.Cell]
    verdicts: list[Verdict]
    evaluations: dict[Group, Curve | None]
    evolutions: dict[Group, Curve | None]
    tables: list[Table]

    @property
    def missing(self) -> list[str]:
        """Everything that the report lacks, in words."""
        lines = [
            f"{table.title}: {what}" for table in self.tables for what in table.missing
        ]
        unfinished = sum(not run.complete for run in self.loaded.runs)
        if unfinished:
            lines.append(f"runs that have not ended, and are left out: {unfinished}")
        return lines + [f"{run}: {problem}" for run, problem in self.loaded.damage]


def contents(store: Path, watch: Watch = lambda what, done, total: None) -> Contents:
    """Read a store and compute what a report shows.

    Raises:
        ValueError: there is nothing to report.
    """
    loaded = load(store, lambda done, total: watch("reading runs", done, total))
    found = groups(loaded.runs)
    if not found:
        raise ValueError(
            f"STORE {str(store)!r} holds {len(loaded.runs)} runs, but none has ended "
            "yet; give the commands that began them again, or wait for them"
        )
    parts = sections(found)
    shown = list(dict.fromkeys(group for part in parts for group in part.groups))
    evaluations: dict[Group, Curve | None] = {}
    evolutions: dict[Group, Curve | None] = {}
    for done, group in enumerate(shown, 1):
        evaluations[group] = evaluation_curve(group.runs)
        evolutions[group] = evolution_curve(group.runs)
        watch("computing medians", done, len(shown))
    swept, cells = sweeps(found), profiles.cells(found)
    compared = comparisons(found)
    judged = list(verdicts(compared))
    return Contents(
        store=store,
        loaded=loaded,
        groups=found,
        sections=parts,
        sweeps=swept,
        cells=cells,
        verdicts=judged,
        evaluations=evaluations,
        evolutions=evolutions,
        tables=[
            *[tables.results(compared, study) for study in STUDIES],
            tables.other_results(parts, compared),
            tables.reproduction(judged),
            tables.hyperparameters(parts),
            tables.search_spaces(found),
            tables.sensitivity(swept),
            profile_areas(cells),
            against_adam(cells),
        ],
    )
