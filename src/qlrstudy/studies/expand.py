"""From a study to its runs: tunings first, then the repetitions of what they found."""

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from qlrstudy import paper
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.cluster.jobs import Job
from qlrstudy.names import lookup
from qlrstudy.spec import Budget, Run, Task
from qlrstudy.store import studies
from qlrstudy.store.files import UnreadableError
from qlrstudy.store.studies import StudyEntry
from qlrstudy.studies.definition import Cell, Published, Settings, Study
from qlrstudy.studies.repetitions import ReadIdentity, repetitions
from qlrstudy.tasks import TASKS
from qlrstudy.training.provenance import hyperparameters
from qlrstudy.training.resolve import run_with
from qlrstudy.tuning.rule import Tuned
from qlrstudy.tuning.search import Search
from qlrstudy.tuning.space import Tuning


class Point(NamedTuple):
    """One point of a cell: what it varies, and its first run."""

    cell: Cell
    varied: Settings
    run: Run

    def jobs(self, data_of: ReadIdentity) -> list[Job]:
        """All its repetitions."""
        return repetitions(self.run, self.cell.repetitions, data_of(self.run.task))

    def entry(self, jobs: Iterable[Job]) -> StudyEntry:
        """What the store keeps of it, for those who read its runs."""
        return StudyEntry(
            task=self.run.task.name,
            scale=self.run.task.scale,
            algorithm=self.run.algorithm.name,
            tuned=isinstance(self.cell.settings, Tuned),
            point=dict(self.varied),
            hyperparameters=hyperparameters(self.run),
            runs=[job.place for job in jobs],
            unseen=self.cell.unseen,
        )


def points(cell: Cell, settings: Settings) -> Iterator[Point]:
    """A cell's points with the settings that it is to have."""
    task = task_of(cell)
    algorithm = lookup("ALGORITHM", cell.algorithm, ALGORITHMS)
    for varied in cell.points:
        chosen = {**settings, **varied}
        yield Point(cell, varied, run_with(task, algorithm, chosen, 0, cell.budget))


def task_of(cell: Cell, scale: str | None = None) -> Task:
    """A cell's task, at its scale unless another is given."""
    scales = lookup("TASK", cell.task, TASKS)
    return lookup(f"--scale for task {cell.task!r}", scale or cell.scale, scales)


def known_settings(cell: Cell) -> Settings | None:
    """A cell's settings, where no tuning must find them first."""
    if isinstance(cell.settings, Tuned):
        return None
    if isinstance(cell.settings, Published):
        return paper.hyperparameters(task_of(cell), ALGORITHMS[cell.algorithm])
    return cell.settings


def tuning_of(cell: Cell) -> Tuning | None:
    """What must find a cell's settings; `None` where there is nothing to find."""
    how = cell.settings
    if not isinstance(how, Tuned):
        return None
    task, algorithm = task_of(cell, how.scale), ALGORITHMS[cell.algorithm]
    if not (algorithm.search or task.batch_sizes or task.sequence_lengths):
        return None
    budget: Budget = how.budget or cell.budget or task.budget
    return Tuning(task, algorithm, how, budget)


class Expansion:
    """A study as the jobs to be done; what its tunings find adds to them.

    Args:
        study: what to do.
        scale: at which it is, for the list of its runs.
        store: the directory of all runs.
        data_of: what a task's data are.
    """

    def __init__(self, study: Study, scale: str, store: Path, data_of: ReadIdentity):
        self.study, self.store, self.data_of = study, store, data_of
        self.file = studies.study_file(store, study.name, scale)
        self.searches: list[Search] = []
        self.damage: list[UnreadableError] = []

    def jobs(self) -> list[Job]:
        """All that can begin; the rest follows from it."""
        untuned: list[Point] = []
        tuned: dict[str, list[Cell]] = {}
        for cell in self.study.cells:
            tuning = tuning_of(cell)
            if tuning is None:
                untuned += points(cell, known_settings(cell) or {})
                continue
            search = Search(tuning, self.store, self.data_of(tuning.task))
            if search.place not in tuned:
                tuned[search.place] = []
                search.then = functools.partial(self._tuned, tuned[search.place])
                self.searches.append(search)
            tuned[search.place].append(cell)
        trials = [job for search in self.searches for job in search.jobs()]
        return trials + self._repetitions(untuned)

    def _tuned(self, cells: Iterable[Cell], settings: Settings) -> list[Job]:
        return self._repetitions([p for cell in cells for p in points(cell, settings)])

    def _repetitions(self, found: Iterable[Point]) -> list[Job]:
        jobs = [(point, point.jobs(self.data_of)) for point in found]
        entries = [point.entry(own) for point, own in jobs]
        if entries:
            damage = studies.enter(
                self.file, self.study.name, self.study.title, entries
            )
            self.damage += [] if damage is None else [damage]
        return [job for _, own in jobs for job in own]
