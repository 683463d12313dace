"""What a store has: runs done, running, failed and diverged; tunings; studies."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from qlrstudy.store import studies, tunings
from qlrstudy.store.files import UnreadableError
from qlrstudy.store.manifest import Manifest, Status
from qlrstudy.store.runs import (
    RunDirectory,
    StoredRuns,
    read_runs,
    read_whole_runs,
)

STATES = (
    *("finished", "diverged", "running", "unfinished", "failed", "stopped"),
    *("damaged", "missing"),
)


class Count(NamedTuple):
    """How many runs are in which state, of some that belong together."""

    name: str
    states: Counter[str]


class Failure(NamedTuple):
    """A run that was given up."""

    path: Path
    error: str


class Contents(NamedTuple):
    """What a store has.

    Attributes:
        algorithms: runs by task and algorithm, without those of tunings.
        tunings: trials by how they ended, or that they have not.
        studies: runs by the studies that they belong to; `missing` ones never began.
        failures: runs that were given up, also in tunings.
        damage: what could not be read.
    """

    algorithms: list[Count]
    tunings: list[Count]
    studies: list[Count]
    failures: list[Failure]
    damage: list[UnreadableError]


def contents(store: Path) -> Contents:
    """Look through a store."""
    runs = read_whole_runs(store)
    found = Contents(_by_algorithm(runs), [], [], _failures(runs), [*runs.damage])
    for directory in tunings.tuning_directories(store):
        trials = read_runs(directory.path / "runs")
        found.tunings.append(_trials(directory, trials, found.damage))
        found.failures.extend(_failures(trials))
        found.damage.extend(trials.damage)
    lists, damage = studies.read_studies(store)
    found.damage.extend(damage)
    for path, known in lists.items():
        places = [store / place for entry in known.entries for place in entry.runs]
        states = Counter(_state_of(place, runs) for place in places)
        found.studies.append(Count(path.stem, states))
    return found


def state(path: Path, status: Status) -> str:
    """A run's state: one that says it is running may have lost its process."""
    if status in (Status.RUNNING, Status.INTERRUPTED):
        return "running" if RunDirectory(path).is_claimed() else "unfinished"
    return status


def _by_algorithm(runs: StoredRuns) -> list[Count]:
    found: dict[str, Counter[str]] = {}
    for path, manifest in runs.manifests.items():
        name = f"{manifest.task} {manifest.algorithm}"
        found.setdefault(name, Counter())[state(path, manifest.status)] += 1
    return [Count(name, found[name]) for name in sorted(found)]


def _trials(
    directory: tunings.TuningDirectory,
    trials: StoredRuns,
    damage: list[UnreadableError],
) -> Count:
    """A tuning's trials: those that ended by its log, which a pack keeps; the rest.

    One that failed and is tried again has an end in the log, and has not ended.
    """
    states: dict[int, str] = {}
    won = ""
    try:
        directory.identity()
    except UnreadableError as error:
        damage.append(error)
    try:
        entries, problems = directory.log()
        damage.extend(problems)
        states |= {e.trial: e.event.value for e in entries if e.milestone is None}
    except UnreadableError as error:
        damage.append(error)
    for path, manifest in trials.manifests.items():
        trial = tunings.trial_of(manifest.seed)
        is_open = states.get(trial, Status.FAILED) == Status.FAILED
        if is_open and not manifest.status.is_final:
            states[trial] = state(path, manifest.status)
    try:
        won = "" if directory.best() is None else " (tuned)"
    except UnreadableError as error:
        damage.append(error)
    return Count(directory.path.name + won, Counter(states.values()))


def _state_of(path: Path, runs: StoredRuns) -> str:
    manifest: Manifest | None = runs.manifests.get(path)
    if manifest is not None:
        return state(path, manifest.status)
    return "damaged" if (path / "manifest.json").exists() else "missing"


def _failures(runs: StoredRuns) -> list[Failure]:
    return [
        Failure(path, manifest.error or "")
        for path, manifest in runs.manifests.items()
        if manifest.status == Status.FAILED
    ]
