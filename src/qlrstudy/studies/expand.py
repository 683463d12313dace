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
from qlrstudy.studies.definition import Arm, Published, Settings, Study
from qlrstudy.studies.repetitions import ReadIdentity, repetitions
from qlrstudy.tasks import TASKS
from qlrstudy.training.provenance import hyperparameters
from qlrstudy.training.resolve import run_with
from qlrstudy.tuning.rule import Tuned
from qlrstudy.tuning.search import Search
from qlrstudy.tuning.space import Tuning, has_choices


class Point(NamedTuple):
    """One point of an arm: what it varies, and its first run."""

    arm: Arm
    varied: Settings
    run: Run

    def jobs(self, data_of: ReadIdentity) -> list[Job]:
        """All its repetitions."""
        return repetitions(self.run, self.arm.repetitions, data_of(self.run.task))

    def entry(self, jobs: Iterable[Job]) -> StudyEntry:
        """What the store keeps of it, for those who read its runs."""
        return StudyEntry(
            task=self.run.task.name,
            scale=self.run.task.scale,
            algorithm=self.run.algorithm.name,
            tuned=isinstance(self.arm.settings, Tuned),
            point=dict(self.varied),
            hyperparameters=hyperparameters(self.run),
            runs=[job.place for job in jobs],
            unseen=self.arm.unseen,
        )


def points(arm: Arm, settings: Settings) -> Iterator[Point]:
    """An arm's points with the settings that it is to have."""
    task = task_of(arm)
    algorithm = lookup("ALGORITHM", arm.algorithm, ALGORITHMS)
    for varied in arm.points:
        chosen = {**settings, **varied}
        yield Point(arm, varied, run_with(task, algorithm, chosen, 0, arm.budget))


def task_of(arm: Arm, scale: str | None = None) -> Task:
    """An arm's task, at its scale unless another is given."""
    scales = lookup("TASK", arm.task, TASKS)
    return lookup(f"--scale for task {arm.task!r}", scale or arm.scale, scales)


def known_settings(arm: Arm) -> Settings | None:
    """An arm's settings, where no tuning must find them first."""
    if isinstance(arm.settings, Tuned):
        return None
    if isinstance(arm.settings, Published):
        return paper.hyperparameters(task_of(arm), ALGORITHMS[arm.algorithm])
    return arm.settings


def tuning_of(arm: Arm) -> Tuning | None:
    """What must find an arm's settings; `None` where there is nothing to find."""
    how = arm.settings
    if not isinstance(how, Tuned):
        return None
    task, algorithm = task_of(arm, how.scale), ALGORITHMS[arm.algorithm]
    if not has_choices(task, algorithm):
        return None
    budget: Budget = how.budget or arm.budget or task.budget
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
        tuned: dict[str, list[Arm]] = {}
        for arm in self.study.arms:
            tuning = tuning_of(arm)
            if tuning is None:
                untuned += points(arm, known_settings(arm) or {})
                continue
            search = Search(tuning, self.store, self.data_of(tuning.task))
            if search.place not in tuned:
                tuned[search.place] = []
                search.then = functools.partial(self._tuned, tuned[search.place])
                self.searches.append(search)
            tuned[search.place].append(arm)
        trials = [job for search in self.searches for job in search.jobs()]
        return trials + self._repetitions(untuned)

    def _tuned(self, arms: Iterable[Arm], settings: Settings) -> list[Job]:
        return self._repetitions([p for arm in arms for p in points(arm, settings)])

    def _repetitions(self, found: Iterable[Point]) -> list[Job]:
        jobs = [(point, point.jobs(self.data_of)) for point in found]
        entries = [point.entry(own) for point, own in jobs]
        if entries:
            damage = studies.enter(
                self.file, self.study.name, self.study.title, entries
            )
            self.damage += [] if damage is None else [damage]
        return [job for _, own in jobs for job in own]
