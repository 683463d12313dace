"""A tuning on disk: what is searched, what was decided at each rung, what won.

    STORE/tunings/<task>-<algorithm>-<identity>/
        tuning.json     what is searched, and by which rule
        log.jsonl       each decision and each trial's end, only ever appended to
        best.json       the winner's hyperparameters, once all trials have ended
        runs/           the trials, each a run like any other

The log is the truth. A tuning that was killed is taken up again by going through its
decisions in the order in which they were made. More samples than before only add trials
at the end, since each trial's settings come from the seed and its number alone.
"""

import dataclasses
import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from qlrstudy.spec import Algorithm, Budget, Complement, Run, Task
from qlrstudy.store.runs import RunDirectory, StoreError, explained
from qlrstudy.studies.definition import Tuned
from qlrstudy.training.resolve import run_with

FOLDER = "tunings"


@dataclasses.dataclass(frozen=True)
class Tuning:
    """A search for the settings of an algorithm on a task.

    Args:
        task: at its scale.
        algorithm: what is tuned.
        how: by which rule.
        budget: of each trial.
    """

    task: Task
    algorithm: Algorithm
    how: Tuned
    budget: Budget


class Entry(NamedTuple):
    """A line of the log: a decision at a milestone, or a trial's end.

    Attributes:
        trial: its number.
        event: `continue` or `stop` at a rung; `finished`, `stopped`, `diverged` or
            `failed` at the end.
        at: how much of the resource the trial has had.
        loss: the metric, there.
        milestone: of the rung; `None` for an end.
    """

    trial: int
    event: str
    at: float
    loss: float
    milestone: float | None = None


def identity(tuning: Tuning, contents: Mapping[str, Any]) -> dict[str, Any]:
    """All that decides which trials there are, and how they are judged."""
    how = dataclasses.asdict(tuning.how)
    kept = {name: how[name] for name in ("metric", "resource", "seconds", "seed")}
    return {
        "task": tuning.task.name,
        "scale": tuning.task.scale,
        "algorithm": tuning.algorithm.name,
        "search": {
            name: [type(space).__name__, *space]
            for name, space in tuning.algorithm.search.items()
        },
        "batch_sizes": list(tuning.task.batch_sizes),
        "sequence_lengths": list(tuning.task.sequence_lengths),
        "budget": {tuning.budget.unit: tuning.budget.amount},
        **kept,
        **contents,
    }


def place(tuning: Tuning, contents: Mapping[str, Any]) -> str:
    """A tuning's directory, relative to the store."""
    text = json.dumps(identity(tuning, contents), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{FOLDER}/{tuning.task.name}-{tuning.algorithm.name}-{digest[:12]}"


def hyperparameters(tuning: Tuning, trial: int) -> dict[str, float]:
    """A trial's settings at random, by the tuning's seed and the trial's number."""
    # Not the same numbers for all tasks and algorithms: their luck is to be their own.
    name = f"{tuning.task.name} {tuning.algorithm.name}"
    chance = np.random.default_rng([tuning.how.seed, zlib.crc32(name.encode()), trial])
    drawn: dict[str, float] = {}
    if tuning.task.batch_sizes:
        drawn["batch_size"] = int(chance.choice(tuning.task.batch_sizes))
    if tuning.task.sequence_lengths:
        drawn["sequence_length"] = int(chance.choice(tuning.task.sequence_lengths))
    for name, space in tuning.algorithm.search.items():
        value = math.exp(chance.uniform(math.log(space.low), math.log(space.high)))
        drawn[name] = 1.0 - value if isinstance(space, Complement) else value
    return drawn


def trial_run(tuning: Tuning, trial: int) -> Run:
    """A trial, with a seed that no repetition has."""
    seed = 1_000_000 * (1 + tuning.how.seed) + trial
    chosen = hyperparameters(tuning, trial)
    return run_with(tuning.task, tuning.algorithm, chosen, seed, tuning.budget)


class TuningDirectory:
    """One tuning's place in a store.

    Args:
        path: its directory, there or yet to be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Say what is searched."""
        self._write("tuning.json", identity)

    def append(self, entry: Entry) -> None:
        """Add a decision or an end, before anything follows from it."""
        path = self.path / "log.jsonl"
        line = entry._asdict()
        if not math.isfinite(entry.loss):
            line["loss"] = None
        with explained(path), path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def entries(self) -> Iterator[Entry]:
        """The log, in order; a line that was cut short is none."""
        path = self.path / "log.jsonl"
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                values = json.loads(line)
            except json.JSONDecodeError:
                continue
            if values["loss"] is None:
                values["loss"] = math.inf
            yield Entry(**values)

    def finish(self, best: Mapping[str, float]) -> None:
        """Say what won."""
        self._write("best.json", best)

    def what(self) -> dict[str, Any]:
        """What is searched."""
        return json.loads((self.path / "tuning.json").read_text())

    def best(self) -> dict[str, float] | None:
        """What won, or `None` before the end."""
        path = self.path / "best.json"
        return json.loads(path.read_text()) if path.exists() else None

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        with explained(self.path / name):
            partial = self.path / f".{name}"
            partial.write_text(json.dumps(content, indent=2) + "\n")
            partial.replace(self.path / name)


def directories(store: Path) -> Iterator[TuningDirectory]:
    """Every tuning of a store."""
    for path in sorted(store.glob(f"{FOLDER}/*/tuning.json")):
        yield TuningDirectory(path.parent)


def best(store: Path, task: Task, algorithm: Algorithm) -> dict[str, float]:
    """The winner of the one tuning of an algorithm on a task, at its scale if any is.

    Raises:
        StoreError: there is none yet, or more than one.
    """
    found = [
        directory
        for directory in directories(store)
        if directory.what()["task"] == task.name
        and directory.what()["algorithm"] == algorithm.name
        and directory.best() is not None
    ]
    found = [d for d in found if d.what()["scale"] == task.scale] or found
    if len(found) != 1:
        names = ", ".join(str(d.path / "best.json") for d in found)
        raise StoreError(
            f"--hyperparameters best: the store {store} has {len(found)} finished "
            f"tunings of algorithm {algorithm.name!r} on task {task.name!r}; "
            + (f"name one: {names}" if found else "run `qlrstudy tune` first")
        )
    winner = found[0].best()
    assert winner is not None
    return winner


def claim(directory: TuningDirectory) -> Any:
    """Keep other drivers from the same tuning; see `RunDirectory.claim`."""
    return RunDirectory(directory.path).claim()
