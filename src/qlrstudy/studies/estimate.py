"""How long a study would take: steps still to take, times what a step has cost before.

A step's cost comes from finished runs in the store with the same task, scale, algorithm
and batch; or else from `step_costs.csv`, measured on one core by
`benchmarks/step_costs.py`, with batches in between on a straight line.
"""

import csv
import importlib.resources
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from qlrstudy.cluster.jobs import Job
from qlrstudy.spec import Run
from qlrstudy.store.runs import runs
from qlrstudy.studies.expand import Conduct, groups, known_settings, task_of, tuning_of
from qlrstudy.tuning import space as tunings
from qlrstudy.tuning.search import REDUCTION, Search

Key = tuple[str, str, str]  # task, scale, algorithm


class Estimate(NamedTuple):
    """Training seconds of some runs.

    Attributes:
        seconds: of those whose cost is known.
        unknown: how many runs have no known cost.
        sources: where the costs come from.
    """

    seconds: float
    unknown: int
    sources: frozenset[str]


class Line(NamedTuple):
    """Some runs of a study that belong together.

    Attributes:
        task: by name, as `algorithm`.
        algorithm: what learns it.
        what: trials, or repetitions of which settings.
        runs: how many there are.
        missing: how many of them the store lacks.
        estimate: of the missing ones.
    """

    task: str
    algorithm: str
    what: str
    runs: int
    missing: int
    estimate: Estimate


class Costs:
    """Seconds of a step, as measured.

    Args:
        store: whose finished runs count first.
    """

    def __init__(self, store: Path) -> None:
        self._stored: dict[tuple[Key, float], list[float]] = defaultdict(list)
        for folder in (store, *store.glob(f"{tunings.FOLDER}/*/runs")):
            for _, manifest in runs(folder):
                if manifest.get("steps") and manifest["last"]["training_seconds"]:
                    size = _size(manifest["hyperparameters"])
                    pace = manifest["last"]["training_seconds"] / manifest["steps"]
                    self._stored[_key(manifest), size].append(pace)
        self._measured: dict[Key, list[tuple[float, float]]] = defaultdict(list)
        for row in _table():
            point = (_size(row), float(row["seconds"]))
            self._measured[_key(row)].append(point)

    def step(self, run: Run) -> tuple[float, str] | None:
        """Seconds and source; `None` for what was never measured."""
        key = (run.task.name, run.task.scale, run.algorithm.name)
        size = float(run.shape.size * (run.shape.length or 1))
        if found := self._stored.get((key, size)):
            return statistics.median(found), "store"
        if points := sorted(self._measured.get(key, [])):
            sizes, seconds = zip(*points, strict=True)
            return float(np.interp(size, sizes, seconds)), "step_costs.csv"
        return None

    def run(self, run: Run, contents: Mapping[str, Any]) -> tuple[float, str] | None:
        """Seconds of a whole run, and their source."""
        if run.budget.unit == "seconds":
            return run.budget.amount, "budget"
        cost = self.step(run)
        if cost is None:
            return None
        count = contents["examples"]["train"]
        per_epoch = run.task.sampling.steps(count, run.shape)
        steps = run.budget.total_steps(per_epoch)
        assert steps is not None
        return steps * cost[0], cost[1]


def lines(conduct: Conduct) -> list[Line]:
    """A study's runs, with the time that the missing ones will take."""
    costs = Costs(conduct.store)
    found: list[Line] = []
    seen: set[str] = set()
    for cell in conduct.study.cells:
        tuning = tuning_of(cell)
        settings = known_settings(cell) or {}
        if tuning is not None:
            contents = conduct.contents(tuning.task)
            search = Search(tuning, conduct.store, contents)
            if search.place not in seen:
                seen.add(search.place)
                found.append(_trials(search, costs))
            settings = search.directory.best()
        contents = conduct.contents(task_of(cell))
        if settings is None:
            assert tuning is not None
            some = [tunings.trial_run(tuning, trial) for trial in range(20)]
            count = cell.repetitions * len(cell.points)
            each = _sum(
                (costs.run(run, contents) for run in some), stands_for=count / len(some)
            )
            what = f"{len(cell.points)} settings, once tuned"
            found.append(Line(cell.task, cell.algorithm, what, count, count, each))
            continue
        for group in groups(cell, settings):
            jobs = group.jobs(conduct.contents)
            missing = [job for job in jobs if not _is_done(conduct.store, job)]
            total = _sum(costs.run(job.run, contents) for job in missing)
            what = ", ".join(f"{k} {v:.4g}" for k, v in group.point.items())
            size = f"batch {group.run.shape.size}"
            what = what if "batch_size" in group.point else f"{size} {what}".strip()
            found.append(
                Line(cell.task, cell.algorithm, what, len(jobs), len(missing), total)
            )
    return found


def _trials(search: Search, costs: Costs) -> Line:
    tuning = search.tuning
    search.load()
    left = [t for t in range(tuning.how.samples) if t not in search.ends]
    runs_ = [tunings.trial_run(tuning, trial) for trial in left]
    part = _expected_part(search)
    total = _sum((costs.run(run, search.contents) for run in runs_), part=part)
    what = f"tuning; ASHA trains about {part:.0%} of each"
    name, algorithm = tuning.task.name, tuning.algorithm.name
    return Line(name, algorithm, what, tuning.how.samples, len(left), total)


def _expected_part(search: Search) -> float:
    """Of a trial's budget, if one in so many goes on at each rung."""
    if search.field == "training_seconds" and search.tuning.budget.unit != "seconds":
        return 1.0  # which part the seconds of the rungs are is not known
    ends = [0.0, *search.asha.milestones, search.most]
    pieces = (
        (after - before) / REDUCTION**rung
        for rung, (before, after) in enumerate(zip(ends, ends[1:], strict=False))
    )
    return sum(pieces) / search.most


def _sum(
    costs: Iterable[tuple[float, str] | None],
    *,
    part: float = 1.0,
    stands_for: float = 1.0,
) -> Estimate:
    """Of runs by their costs: of each a part, and each for so many like it."""
    listed = list(costs)
    known = [cost for cost in listed if cost is not None]
    return Estimate(
        part * stands_for * sum(seconds for seconds, _ in known),
        round(stands_for * (len(listed) - len(known))),
        frozenset(source for _, source in known),
    )


def _is_done(store: Path, job: Job) -> bool:
    return (store / job.place / "evaluations.parquet").exists()


def _key(row: Mapping[str, Any]) -> Key:
    return row["task"], row["scale"], row["algorithm"]


def _size(row: Mapping[str, Any]) -> float:
    return float(row["batch_size"]) * float(row.get("sequence_length") or 1)


def _table() -> list[dict[str, str]]:
    file = importlib.resources.files("qlrstudy.studies") / "step_costs.csv"
    return list(csv.DictReader(file.read_text().splitlines()))
