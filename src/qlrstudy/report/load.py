"""Runs as the report needs them, from any store, also a damaged one.

What cannot be read is said in words and left out; the rest is still reported. Nothing
here trusts a file: the store checks manifests field by field.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from qlrstudy.report.styles import algorithm_title, task_title
from qlrstudy.spec import Budget, Record
from qlrstudy.store import studies
from qlrstudy.store.files import DamagedError, UnreadableError
from qlrstudy.store.manifest import Machine, Manifest
from qlrstudy.store.runs import RunDirectory

COMPLETE = ("finished", "diverged")
# Steps of a run that are kept for its evolution: more than any curve shows.
_MOST_STEPS = 2048


class Damage(NamedTuple):
    """What could not be read, where, and what became of it."""

    run: str
    problem: str


@dataclasses.dataclass(frozen=True, eq=False)
class StoredRun:
    """A run and what it measured.

    Args:
        name: of its directory.
        task: its name, and below that of the algorithm.
        titles: of the task, and of the algorithm as it is called today.
        scale: of the task.
        hyperparameters: the batch's shape among them.
        budget: how long it was to train.
        status: `finished`, `diverged`, or anything else for a run that has not ended.
        caveats: why its numbers are not the protocol's.
        search: where the algorithm's settings are tuned; `None` in stores that did not
            keep it.
        records: a column for each field of `Record`.
        step_size, damping: of the steps in `steps`, which are thinned out.
        minibatch_loss: the last finite one.
        positions: the path of the parameters, a row for each evaluation, or `None`.
        studies: those that chose this run's setting, and did not just vary it.
        unseen: whether a study says that nothing was chosen on such runs.
        tuned: whether a study says that its setting, or batch, was searched for.
        version: of the algorithm, where it has one.
        examples: in the training split; `None` in stores that did not keep it.
        machine: where it was made, if it says so.
        versions: of the packages, by name.
    """

    name: str
    task: str
    algorithm: str
    titles: tuple[str, str]
    scale: str
    hyperparameters: Mapping[str, float]
    seed: int
    budget: Budget
    status: str
    caveats: tuple[str, ...]
    search: Mapping[str, Mapping[str, Any]] | None
    started: str
    records: Mapping[str, np.ndarray]
    steps: np.ndarray
    step_size: np.ndarray
    damping: np.ndarray
    minibatch_loss: float
    positions: np.ndarray | None
    studies: frozenset[str]
    examples: int | None
    machine: Machine | None
    versions: Mapping[str, str]
    unseen: bool = False
    tuned: bool = False
    version: str = ""

    @property
    def complete(self) -> bool:
        """Whether it ended by itself."""
        return self.status in COMPLETE


class Loaded(NamedTuple):
    """A store's readable runs, and what is wrong with the others."""

    runs: list[StoredRun]
    damage: list[Damage]


def load(
    store: Path, watch: Callable[[int, int], None] = lambda done, total: None
) -> Loaded:
    """Read a store.

    Args:
        store: the directory of all runs.
        watch: told how many of how many directories are read.

    Raises:
        ValueError: there is no such directory, or no run that can be read in it.
    """
    if not store.is_dir():
        raise ValueError(
            "STORE must be a directory of runs, or a file that `qlrstudy pack` made, "
            f"got {str(store)!r}; `qlrstudy run --store DIR` makes a directory"
        )
    places = sorted(path for path in store.iterdir() if _is_run(path))
    runs: list[StoredRun] = []
    damage: list[Damage] = []
    known = _known_to_studies(store, damage)
    for done, path in enumerate(places, 1):
        try:
            run, complaints = _read(path, known)
        except _Unreadable as error:
            damage.append(Damage(path.name, f"{error}; the run is left out"))
        else:
            runs.append(run)
            damage += [Damage(path.name, text) for text in complaints]
        watch(done, len(places))
    if not runs:
        raise ValueError(_nothing(store, damage))
    return Loaded(_of_newest_versions(runs, damage), damage)


class _Unreadable(Exception):
    """A run without which the report must do."""


def _is_run(path: Path) -> bool:
    names = ("manifest.json", "records.jsonl", "evaluations.parquet", "steps.parquet")
    return path.is_dir() and any((path / name).exists() for name in names)


def _nothing(store: Path, damage: list[Damage]) -> str:
    first = f" (the first: {damage[0].run}: {damage[0].problem})" if damage else ""
    count = f"{len(damage)} damaged runs{first}" if damage else "no runs"
    return (
        f"STORE {str(store)!r} holds {count}, so there is nothing to report; "
        "make some with `qlrstudy run TASK ALGORITHM --store DIR`"
    )


def _of_newest_versions(runs: list[StoredRun], damage: list[Damage]) -> list[StoredRun]:
    """Without runs of an algorithm that has changed since: they are another's."""
    newest = {r.algorithm: r.version for r in sorted(runs, key=lambda r: r.started)}
    kept = [run for run in runs if run.version == newest[run.algorithm]]
    dropped = Counter(run.algorithm for run in runs) - Counter(
        run.algorithm for run in kept
    )
    damage += [
        Damage(name, f"{count} runs of earlier versions of the method are left out")
        for name, count in dropped.items()
    ]
    return kept


class _Known(NamedTuple):
    """What studies say of runs, by the lists that they keep of them.

    Attributes:
        chosen: the studies that chose a run's setting.
        unseen: runs that nothing was chosen on.
        tuned: runs whose settings were searched for.
    """

    chosen: dict[str, list[str]]
    unseen: set[str]
    tuned: set[str]


def _known_to_studies(store: Path, damage: list[Damage]) -> _Known:
    """What the lists of a store say.

    It needs none; with one, a sweep's points are not taken for a choice.
    """
    found = _Known({}, set(), set())
    lists, unread = studies.read_studies(store)
    damage += [Damage(f"studies/{error.path.name}", error.problem) for error in unread]
    for path, known in lists.items():
        planned = [run for entry in known.entries for run in entry.runs]
        absent = sum(not (store / run).is_dir() for run in planned)
        if absent:
            text = f"{absent} planned runs are absent"
            damage.append(Damage(f"studies/{path.name}", text))
        for entry in known.entries:
            for run in entry.runs if not entry.point else ():
                found.chosen.setdefault(run, []).append(known.name)
            found.unseen.update(entry.runs if entry.unseen else ())
            found.tuned.update(entry.runs if entry.tuned else ())
    return found


def _read(path: Path, known: _Known) -> tuple[StoredRun, list[str]]:
    directory = RunDirectory(path)
    complaints: list[str] = []
    fields = _manifest(directory)
    records = _records(directory, complaints)
    unfit = {error.path.name: error.problem for error in directory.damage()}
    if "records.jsonl" in unfit:
        raise _Unreadable(f"records.jsonl {unfit['records.jsonl']}")
    steps = np.arange(0)
    step_size = damping = losses = np.empty(0)
    try:
        for name in ("steps.parquet", "steps.jsonl"):
            if name in unfit:
                raise DamagedError(path / name, unfit[name])
        numbers, report = directory.some_steps(_MOST_STEPS)
    except DamagedError as error:
        complaints.append(
            f"{error.path.name} {error.problem}; its step sizes and dampings are left "
            "out"
        )
    else:
        steps = numbers
        losses = np.asarray(report.loss, float)
        step_size = np.asarray(report.step_size, float)
        damping = np.asarray(report.damping, float)
    at_records = records["minibatch_training_loss"]
    # Of a run that diverged, the last finite one is that of a step in between.
    known_losses = at_records if np.isfinite(at_records[-1]) else losses
    finite = known_losses[np.isfinite(known_losses)]
    if not len(finite):
        finite = at_records[np.isfinite(at_records)]
    positions = None
    if "positions.jsonl" in unfit:
        complaints.append(f"positions.jsonl {unfit['positions.jsonl']}")
    else:
        positions = _positions(directory, complaints)
    run = StoredRun(
        name=path.name,
        records=records,
        steps=steps,
        step_size=step_size,
        damping=damping,
        minibatch_loss=float(finite[-1]) if len(finite) else float("nan"),
        positions=positions,
        studies=frozenset(known.chosen.get(path.name, ())),
        unseen=path.name in known.unseen,
        tuned=path.name in known.tuned,
        **fields,
    )
    return run, complaints


def _records(directory: RunDirectory, complaints: list[str]) -> dict[str, np.ndarray]:
    try:
        rows, damage = directory.read_records()
    except UnreadableError as error:
        raise _Unreadable(f"records.jsonl {error.problem}") from error
    complaints += [f"records.jsonl, {error.problem}" for error in damage]
    if damage and not rows:
        raise _Unreadable(f"records.jsonl cannot be read ({complaints[0]})")
    table = np.array(rows, float).reshape(len(rows), len(Record._fields))
    if not np.isfinite(table[:, Record._fields.index("test_loss")]).any():
        raise _Unreadable("records.jsonl holds no evaluation")
    return dict(zip(Record._fields, table.T, strict=True))


def _positions(directory: RunDirectory, complaints: list[str]) -> np.ndarray | None:
    try:
        found = np.array([params for _, params in directory.positions()], float)
    except (UnreadableError, ValueError, TypeError) as error:
        complaints.append(f"positions.jsonl cannot be read ({_short(error)})")
        return None
    return found if found.size else None


def _manifest(directory: RunDirectory) -> dict[str, Any]:
    """A `StoredRun`'s fields out of the manifest."""
    try:
        content = directory.manifest()
        if content is None:
            raise _Unreadable("manifest.json is missing")
        return _fields(content)
    except UnreadableError as error:
        raise _Unreadable(f"manifest.json {error.problem}") from error
    except ValueError as error:
        raise _Unreadable(f"manifest.json has a wrong field ({error})") from error


def _fields(content: Manifest) -> dict[str, Any]:
    task, algorithm, titles = content.task, content.algorithm, content.titles
    ((unit, amount),) = content.budget.items()
    return {
        "task": task,
        "algorithm": algorithm,
        "titles": (
            titles.task if titles else task_title(task),
            algorithm_title(algorithm, titles.algorithm if titles else algorithm),
        ),
        "scale": content.scale,
        "hyperparameters": content.hyperparameters,
        "seed": content.seed,
        "budget": Budget(unit, amount),
        "status": content.status,
        "caveats": content.caveats,
        "search": content.search,
        "started": content.started,
        "examples": content.examples.get("train"),
        "machine": content.machine,
        "versions": content.versions,
        "version": content.version,
    }


def _short(error: Exception) -> str:
    """An error's first line, or the kind of it where that says nothing."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:120]}"
