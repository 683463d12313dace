"""How long a study would take: steps still to take, times what a step has cost before.

A step's cost comes from finished runs in the store with the same task, scale, algorithm
and batch; or else from `step_costs.csv`, measured on one core by
`benchmarks/step_costs.py`, with batches in between on a straight line; or else from
what another algorithm costs there, times how much more work a step is. Of a trial
ASHA is expected to stop its part at each rung. No data are read: how many examples
there are, the store's runs say, or the task. `overheads` has what comes on top.
"""

import contextlib
import csv
import importlib.resources
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from qlrstudy.cluster.jobs import Job
from qlrstudy.spec import Run
from qlrstudy.store.files import NewerError, UnreadableError
from qlrstudy.store.manifest import Identity
from qlrstudy.store.runs import RunDirectory, read_runs
from qlrstudy.store.tunings import FOLDER, TuningIdentity, tuning_directories
from qlrstudy.studies.definition import Arm, Study
from qlrstudy.studies.expand import (
    Expansion,
    Point,
    known_settings,
    points,
    task_of,
    tuning_of,
)
from qlrstudy.studies.overheads import Beside, Overheads, measured
from qlrstudy.studies.repetitions import ReadIdentity
from qlrstudy.training.provenance import DataIdentity
from qlrstudy.tuning.asha import REDUCTION
from qlrstudy.tuning.search import Search
from qlrstudy.tuning.space import Tuning, trial_run

Key = tuple[str, str, str]  # task, scale, algorithm

# A step's work in Adam's: the bounds of docs/cost.md, and for K-FAC the median of what
# `step_costs.csv` has. All others are taken for Adam's.
_WORK = {
    "adamqlr-tuned": 2.0,
    "adamqlr-untuned": 2.0,
    "adamqlr-undamped": 2.0,
    "adamqlr-hessian": 3.0,
    "sgdqlr": 2.0,
    "kfac": 20.0,
    "kfac-untuned": 20.0,
    "kfac-unadaptive": 20.0,
}


class Cost(NamedTuple):
    """Training seconds of some runs.

    Attributes:
        seconds: of those whose cost is known.
        unknown: how many runs have no known cost.
        sources: where the costs come from.
        longest: seconds of the longest of them.
    """

    seconds: float
    unknown: int
    sources: frozenset[str]
    longest: float


class CostLine(NamedTuple):
    """Some runs of a study that belong together.

    Attributes:
        task: by name, as `algorithm`.
        algorithm: what learns it.
        what: trials, or repetitions of which settings.
        runs: how many there are.
        missing: how many of them the store lacks.
        cost: of the missing ones.
        beside: what these take beside their training.
    """

    task: str
    algorithm: str
    what: str
    runs: int
    missing: int
    cost: Cost
    beside: Beside


class StepCosts:
    """Seconds of a step, as measured.

    Args:
        store: whose finished runs count first.
    """

    def __init__(self, store: Path) -> None:
        self._stored: dict[tuple[Key, float], list[float]] = defaultdict(list)
        folders = (store, *store.glob(f"{FOLDER}/*/runs"))
        manifests = [m for f in folders for m in read_runs(f).manifests.values()]
        for manifest in manifests:
            seconds = (manifest.last or {}).get("training_seconds")
            if manifest.steps and seconds:
                key = (manifest.task, manifest.scale, manifest.algorithm)
                size = _size(manifest.hyperparameters)
                self._stored[key, size].append(seconds / manifest.steps)
        self.overheads = Overheads(measured(manifests))
        self._measured: dict[Key, list[tuple[float, float]]] = defaultdict(list)
        for row in _table():
            key = (row["task"], row["scale"], row["algorithm"])
            self._measured[key].append((_size(row), float(row["seconds"])))

    def step(self, run: Run) -> tuple[float, str] | None:
        """Seconds and source; `None` for what was never measured."""
        place = (run.task.name, run.task.scale)
        own = run.algorithm.name
        size = float(run.shape.size * (run.shape.length or 1))
        if found := self._stored.get(((*place, own), size)):
            return statistics.median(found), "store"
        if (*place, own) in self._measured:
            return self._between((*place, own), size), "step_costs.csv"
        work = _WORK.get(own, 1.0)
        others = {k[2]: _WORK.get(k[2], 1.0) for k in self._measured if k[:2] == place}
        if not others:
            return None
        like = min(others, key=lambda name: (abs(math.log(work / others[name])), name))
        cost = self._between((*place, like), size) * work / others[like]
        return cost, f"step_costs.csv, by {like}"

    def _between(self, key: Key, size: float) -> float:
        """In a straight line from one batch to the next; beyond them, in proportion."""
        sizes, seconds = map(np.array, zip(*sorted(self._measured[key]), strict=True))
        inside = float(np.interp(size, sizes, seconds))
        return inside * max(1.0, size / float(sizes[-1]))

    def run(self, run: Run, data: DataIdentity) -> tuple[float, str] | None:
        """Seconds of a whole run, and their source."""
        if run.budget.unit == "seconds":
            return run.budget.amount, "budget"
        cost = self.step(run)
        if cost is None:
            return None
        steps = _steps(run, data)
        assert steps is not None
        return steps * cost[0], cost[1]


def _evaluations(run: Run, data: DataIdentity) -> float:
    """Of a whole run, the one before its first step not counted."""
    per_epoch = run.task.sampling.steps(data.examples["train"], run.shape)
    interval, steps = run.evaluation_interval(per_epoch), _steps(run, data)
    return steps / interval if interval and steps else run.task.evaluations


def _steps(run: Run, data: DataIdentity) -> int | None:
    """Of the whole run; `None` where only the clock will tell."""
    per_epoch = run.task.sampling.steps(data.examples["train"], run.shape)
    return run.budget.total_steps(per_epoch)


def known_data(store: Path) -> ReadIdentity:
    """What a task's data are, without a look at them.

    They are what the store's runs were made of, so that its runs are found again; where
    there is none, all that is known is how many examples there should be.
    """
    found: dict[tuple[str, str], DataIdentity] = {}
    for known in _identities(store):
        own = DataIdentity(known.data, known.examples)
        best = found.setdefault((known.task, known.scale), own)
        if own.examples.get("train", 0) > best.examples.get("train", 0):
            found[known.task, known.scale] = own
    return lambda task: (
        found.get((task.name, task.scale)) or DataIdentity({}, {"train": task.examples})
    )


def unread(study: Study, data_of: ReadIdentity) -> list[str]:
    """The tasks whose data no run of the store has read: they are taken for whole."""
    tasks = {arm.task: task_of(arm) for arm in study.arms}
    return [name for name, task in tasks.items() if not data_of(task).sums]


def _identities(store: Path) -> Iterator[Identity | TuningIdentity]:
    """Of all runs, trials and tunings of a store; an unpacked one has no trials."""
    for folder in (store, *store.glob(f"{FOLDER}/*/runs")):
        yield from read_runs(folder).manifests.values()
    for directory in tuning_directories(store):
        with contextlib.suppress(UnreadableError):
            known = directory.identity()
            if known is not None:
                yield known


def lines(study: Expansion) -> list[CostLine]:
    """A study's runs, with the time that the missing ones will take."""
    costs = StepCosts(study.store)
    found: list[CostLine] = []
    seen: set[str] = set()
    for arm in study.study.arms:
        tuning = tuning_of(arm)
        settings = known_settings(arm) or {}
        if tuning is not None:
            search = Search(tuning, study.store, study.data_of(tuning.task))
            if search.place not in seen:
                seen.add(search.place)
                found.append(_trials(search, costs, study))
            settings = _found(search, study)
            if settings is None:
                found.append(_once_tuned(arm, tuning, costs, study))
                continue
        found += [_point(point, costs, study) for point in points(arm, settings)]
    return found


def _once_tuned(
    arm: Arm, tuning: Tuning, costs: StepCosts, study: Expansion
) -> CostLine:
    """Repetitions of settings that are still to be found, by some at random."""
    data = study.data_of(task_of(arm))
    some = [trial_run(tuning, trial) for trial in range(20)]
    count = arm.repetitions * len(arm.points)
    each = (costs.run(run, data) for run in some)
    total = _sum(each, stands_for=count / len(some))
    plural = "s" * (len(arm.points) != 1)
    what = f"{len(arm.points)} setting{plural}, once tuned"
    # With a batch that the tuning has compiled for.
    beside = costs.overheads.of([(some[0], count * (1 + _evaluations(some[0], data)))])
    return CostLine(arm.task, arm.algorithm, what, count, count, total, beside)


def _point(point: Point, costs: StepCosts, study: Expansion) -> CostLine:
    jobs = point.jobs(study.data_of)
    data = study.data_of(point.run.task)
    missing = [job for job in jobs if not _is_done(study, job)]
    total = _sum(costs.run(job.run, data) for job in missing)
    what = ", ".join(f"{k} {v:.4g}" for k, v in point.varied.items())
    if "batch_size" not in point.varied:
        what = f"batch {point.run.shape.size} {what}".strip()
    arm = point.arm
    beside = costs.overheads.of(
        (job.run, 1 + _evaluations(job.run, data)) for job in missing
    )
    count = len(missing)
    return CostLine(arm.task, arm.algorithm, what, len(jobs), count, total, beside)


def _trials(search: Search, costs: StepCosts, study: Expansion) -> CostLine:
    tuning, how = search.tuning, search.tuning.how
    search.load()
    study.damage += search.damage
    left = [t for t in range(how.samples) if t not in search.ends]
    whole = [_trial(search, trial, costs) for trial in left]
    known = [trial for trial in whole if trial is not None]
    total = _sum(trial and (_expected(trial.ends), trial.source) for trial in whole)
    total = total._replace(longest=max((t.ends[-1] for t in known), default=0.0))
    what, part = "tuning", 1.0
    if known:
        part = total.seconds / sum(trial.seconds for trial in known)
        what += f"; ASHA trains about {part:.0%} of each"
    runs = [trial_run(tuning, trial) for trial in left]
    beside = costs.overheads.of(
        (run, 1 + max(1.0, part * _evaluations(run, search.data))) for run in runs
    )
    name, algorithm, samples = tuning.task.name, tuning.algorithm.name, how.samples
    return CostLine(name, algorithm, what, samples, len(left), total, beside)


class _Trial(NamedTuple):
    """Seconds of a whole trial, those after which it may end, and their source."""

    seconds: float
    ends: list[float]
    source: str


def _trial(search: Search, trial: int, costs: StepCosts) -> _Trial | None:
    run = trial_run(search.tuning, trial)
    cost = costs.run(run, search.data)
    if cost is None:
        return None
    seconds, source = cost
    return _Trial(seconds, _ends(search, run, seconds), source)


def _ends(search: Search, run: Run, seconds: float) -> list[float]:
    """Seconds after which a trial may end; after the last of them it does.

    That is at a rung, at the most that a trial may train, or when it is done, after
    `seconds`. A trial is judged by evaluations, and so by the first from there on.
    """
    unit = 1.0 if search.field == "training_seconds" else seconds / search.most
    marks = (unit * mark for mark in (*search.asha.milestones, search.most))
    between = seconds / _evaluations(run, search.data)
    # A mark at an evaluation, but for rounding, is there and not at the next one.
    evaluations = (math.ceil(mark / between - 1e-9) for mark in marks)
    return sorted({min(seconds, count * between) for count in evaluations})


def _expected(ends: Sequence[float]) -> float:
    """Seconds of a trial, if one in so many goes on at each of its ends."""
    return sum(
        (after - before) / REDUCTION**rung
        for rung, (before, after) in enumerate(itertools.pairwise((0.0, *ends)))
    )


def _sum(costs: Iterable[tuple[float, str] | None], *, stands_for: float = 1.0) -> Cost:
    """Of runs by their costs, each for so many like it."""
    listed = list(costs)
    known = [cost for cost in listed if cost is not None]
    return Cost(
        stands_for * sum(seconds for seconds, _ in known),
        round(stands_for * (len(listed) - len(known))),
        frozenset(source for _, source in known),
        max((seconds for seconds, _ in known), default=0.0),
    )


def _is_done(study: Expansion, job: Job) -> bool:
    """Whether a run has ended; one of a later version cannot be done here."""
    try:
        return RunDirectory(study.store / job.place).ended() is not None
    except UnreadableError as error:
        study.damage.append(error)
        return isinstance(error, NewerError)


def _found(search: Search, study: Expansion) -> dict[str, float] | None:
    try:
        return search.directory.best()
    except UnreadableError as error:
        study.damage.append(error)
        return None


def _size(row: Mapping[str, Any]) -> float:
    return float(row.get("batch_size") or 1) * float(row.get("sequence_length") or 1)


def _table() -> list[dict[str, str]]:
    file = importlib.resources.files("qlrstudy.studies") / "step_costs.csv"
    return list(csv.DictReader(file.read_text().splitlines()))
