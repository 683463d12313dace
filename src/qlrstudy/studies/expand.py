"""From a study to its runs: tunings first, then the repetitions of what they found.

STORE/studies/<name>-<scale>.json    which runs belong to which cell and point
"""

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from qlrstudy import paper
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.cluster.jobs import Job
from qlrstudy.spec import Budget, DataOptions, Run, Task
from qlrstudy.store.runs import explained
from qlrstudy.studies import repetitions as repeat
from qlrstudy.studies.definition import Cell, Published, Settings, Study, Tuned
from qlrstudy.tasks import TASKS
from qlrstudy.training import provenance
from qlrstudy.training.resolve import lookup, run_with
from qlrstudy.tuning.search import Search
from qlrstudy.tuning.space import Tuning

FOLDER = "studies"
Contents = Callable[[Task], Mapping[str, Any]]


class Group(NamedTuple):
    """The repetitions of one point of a cell."""

    cell: Cell
    point: Settings
    run: Run  # the first

    def jobs(self, contents: Contents) -> list[Job]:
        """All of them."""
        return list(
            repeat.jobs(self.run, self.cell.repetitions, contents(self.run.task))
        )


def reader(options: DataOptions) -> Contents:
    """What a task's data are, read once; the data themselves are not kept."""
    return functools.cache(lambda task: provenance.contents(task.load(options)))


def groups(cell: Cell, settings: Settings) -> Iterator[Group]:
    """A cell's points with the settings that it is to have."""
    task = task_of(cell)
    algorithm = lookup("ALGORITHM", cell.algorithm, ALGORITHMS)
    for point in cell.points:
        chosen = {**settings, **point}
        yield Group(cell, point, run_with(task, algorithm, chosen, 0, cell.budget))


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


class Conduct:
    """A study under way: the work to be done, and the book of what belongs to it.

    Args:
        study: what to do.
        store: the directory of all runs.
        data: where data may come from.
    """

    def __init__(self, study: Study, scale: str, store: Path, data: DataOptions):
        self.study, self.store, self.contents = study, store, reader(data)
        self.book = Book(store / FOLDER / f"{study.name}-{scale}.json", study)
        self.searches: list[Search] = []

    def jobs(self) -> list[Job]:
        """All that can begin; the rest follows from it."""
        found: list[Job] = []
        tuned: dict[str, list[Cell]] = {}
        for cell in self.study.cells:
            tuning = tuning_of(cell)
            if tuning is None:
                found += self._repetitions([cell], known_settings(cell) or {})
                continue
            search = Search(tuning, self.store, self.contents(tuning.task))
            if search.place not in tuned:
                tuned[search.place] = []
                search.then = functools.partial(self._repetitions, tuned[search.place])
                self.searches.append(search)
            tuned[search.place].append(cell)
        trials = [job for search in self.searches for job in search.jobs()]
        return trials + found

    def _repetitions(self, cells: Iterable[Cell], settings: Settings) -> list[Job]:
        found = []
        for cell in cells:
            for group in groups(cell, settings):
                jobs = group.jobs(self.contents)
                self.book.enter(group, jobs)
                found += jobs
        return found


class Book:
    """Which runs belong to which cell and point of a study, for those who read them.

    Args:
        path: the file; entries of other cells in it are kept.
        study: what it is about.
    """

    def __init__(self, path: Path, study: Study) -> None:
        self.path, self.study = path, study
        known = json.loads(path.read_text())["entries"] if path.exists() else []
        self.entries = {self._key(entry): entry for entry in known}

    def enter(self, group: Group, jobs: Iterable[Job]) -> None:
        """Add the runs of one point, or replace them by those of new settings."""
        entry = {
            "task": group.run.task.name,
            "scale": group.run.task.scale,
            "algorithm": group.run.algorithm.name,
            "tuned": isinstance(group.cell.settings, Tuned),
            "point": dict(group.point),
            "hyperparameters": provenance.hyperparameters(group.run),
            "runs": [job.place for job in jobs],
        }
        self.entries[self._key(entry)] = entry
        what = {"name": self.study.name, "title": self.study.title}
        text = json.dumps(what | {"entries": list(self.entries.values())}, indent=1)
        with explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_name(f".{self.path.name}")
            partial.write_text(text + "\n")
            partial.replace(self.path)

    @staticmethod
    def _key(entry: Mapping[str, Any]) -> str:
        names = ("task", "scale", "algorithm", "point")
        return json.dumps([entry[name] for name in names], sort_keys=True)
