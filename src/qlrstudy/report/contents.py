"""What a report shows, computed once, before any of it is written or drawn."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from qlrstudy.report import profiles, tables
from qlrstudy.report.charts import Chart, profile_chart, section_charts, sweep_chart
from qlrstudy.report.comparison import STUDIES, Verdict, comparisons, verdicts
from qlrstudy.report.groups import Group, Section, groups, sections
from qlrstudy.report.load import Loaded, load
from qlrstudy.report.one_rate import OneRate, one_rate, one_rate_chart
from qlrstudy.report.profile_tables import (
    against_adam,
    one_rates,
    profile_areas,
    ranks,
    test_losses,
)
from qlrstudy.report.ranking import Ranking, ranking
from qlrstudy.report.statistics import evaluation_curve, evolution_curve
from qlrstudy.report.sweeps import sweeps
from qlrstudy.report.tables import Table
from qlrstudy.report.trajectories import trajectories
from qlrstudy.report.valley import paths

# What is being done, how much of it, of how much.
Watch = Callable[[str, int, int], None]


class Part(NamedTuple):
    """A section and what is drawn of it."""

    section: Section
    charts: tuple[Chart, ...]


class Contents(NamedTuple):
    """All that a report shows.

    Attributes:
        store: the directory it is of.
        loaded: its runs, and what is wrong with others.
        groups: runs that differ in their seed alone.
        parts: what is compared with what.
        ranking: who wins; `None` where nothing is compared with anything.
        one_rate: Adam with one learning rate throughout; `None` where there is none.
        profile: over all cells with a tuned Adam; `None` where there are too few.
        verdicts: on every number that the paper has too.
        tables: also those that must stay empty.
    """

    store: Path
    loaded: Loaded
    groups: list[Group]
    parts: list[Part]
    ranking: Ranking | None
    one_rate: OneRate | None
    profile: Chart | None
    verdicts: list[Verdict]
    tables: list[Table]

    @property
    def charts(self) -> Iterator[Chart]:
        """Everything that is drawn."""
        for part in self.parts:
            yield from part.charts
        yield from self.overview_charts

    @property
    def overview_charts(self) -> Iterator[Chart]:
        """Those that are of all sections together."""
        if self.one_rate is not None:
            yield one_rate_chart(self.one_rate)
        if self.profile is not None:
            yield self.profile

    @property
    def warnings(self) -> list[str]:
        """What a reader must mind: runs that did not end as they should, in words."""
        lines = []
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
    swept, cells = sweeps(found), profiles.cells(found)
    varied = [g for sweep in swept for line in sweep.lines for g in line.groups]
    compared_groups = dict.fromkeys(group for part in parts for group in part.groups)
    shown = dict.fromkeys([*compared_groups, *varied])
    evaluations, evolutions = {}, {}
    for done, group in enumerate(shown, 1):
        evaluations[group] = evaluation_curve(group.runs)
        if group in compared_groups:
            evolutions[group] = evolution_curve(group.runs)
        watch("computing medians", done, len(shown))
    ranked = ranking(parts, cells)
    throughout = one_rate(found, cells)
    compared = comparisons(found)
    judged = list(verdicts(compared))
    drawn = []
    first = {part.place: part for part in reversed(parts)}
    for part in parts:
        charts = list(section_charts(part, evaluations, evolutions))
        over_the_valley = paths(part)
        charts += [over_the_valley] if over_the_valley else []
        if part is first[part.place]:
            for own in (sweep for sweep in swept if sweep.place == part.place):
                along = trajectories(own, evaluations)
                charts += [sweep_chart(own), *([along] if along else [])]
        drawn.append(Part(part, tuple(charts)))
    return Contents(
        store=store,
        loaded=loaded,
        groups=found,
        parts=drawn,
        ranking=ranked,
        one_rate=throughout,
        profile=profile_chart(cells),
        verdicts=judged,
        tables=[
            ranks(ranked),
            one_rates(throughout),
            *[tables.results(compared, study) for study in STUDIES],
            tables.other_results(parts, compared),
            tables.reproduction(judged),
            tables.hyperparameters(parts),
            tables.search_spaces(found),
            tables.sensitivity(swept),
            tables.machines(loaded.runs),
            test_losses(cells),
            profile_areas(cells),
            against_adam(cells),
        ],
    )
