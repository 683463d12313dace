"""What a store has: runs done, running, failed and diverged; tunings; studies."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from qlrstudy.store.runs import RunDirectory, runs
from qlrstudy.studies import expand as study
from qlrstudy.tuning import space as tunings

STATES = ("finished", "diverged", "running", "unfinished", "failed")


class Count(NamedTuple):
    """How many runs are in which state, of some that belong together."""

    name: str
    states: Counter[str]


class Failure(NamedTuple):
    """A run that was given up."""

    path: Path
    error: str


def by_algorithm(store: Path) -> list[Count]:
    """Runs by task and algorithm; those of tunings are not among them."""
    found: dict[str, Counter[str]] = {}
    for path, manifest in runs(store):
        name = f"{manifest['task']} {manifest['algorithm']}"
        found.setdefault(name, Counter())[state(path, manifest["status"])] += 1
    return [Count(name, counter) for name, counter in found.items()]


def by_study(store: Path) -> Iterator[Count]:
    """Runs by the studies that they belong to; `missing` ones never began."""
    for path in sorted(store.glob(f"{study.FOLDER}/*.json")):
        counter: Counter[str] = Counter()
        for entry in json.loads(path.read_text())["entries"]:
            for place in entry["runs"]:
                known = RunDirectory(store / place).manifest()
                status = "missing" if known is None else known["status"]
                counter[state(store / place, status)] += 1
        yield Count(path.stem, counter)


def by_tuning(store: Path) -> Iterator[Count]:
    """Trials by how they ended, or that they have not."""
    for directory in tunings.directories(store):
        ends = {e.trial: e.event for e in directory.entries() if e.milestone is None}
        counter = Counter(ends.values())
        trials = list(runs(directory.path / "runs"))
        counter["running"] = sum(RunDirectory(p).is_claimed() for p, _ in trials)
        counter["unfinished"] = len(trials) - len(ends) - counter["running"]
        won = "" if directory.best() is None else " (tuned)"
        yield Count(directory.path.name + won, counter)


def failures(store: Path) -> Iterator[Failure]:
    """Runs that were given up, also in tunings, with their errors."""
    for folder in (store, *sorted(store.glob(f"{tunings.FOLDER}/*/runs"))):
        for path, manifest in runs(folder):
            if manifest["status"] == "failed":
                yield Failure(path, manifest["error"])


def state(path: Path, status: str) -> str:
    """A run's state: one that says it is running may have lost its process."""
    if status in ("running", "interrupted"):
        return "running" if RunDirectory(path).is_claimed() else "unfinished"
    return status
