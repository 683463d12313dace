"""Tunings on disk: what is searched, what was decided at each rung, what won.

    STORE/tunings/<task>-<algorithm>-<identity>/
        tuning.json     what is searched, and by which rule
        log.jsonl       each decision and each trial's end, only ever appended to
        best.json       the winner's hyperparameters, once all trials have ended
        runs/           the trials, each a run like any other
        .lock           held by the process that searches

The log is the truth: a search that was killed is taken up again by going through it.
"""

import contextlib
import enum
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from qlrstudy.spec import Unit
from qlrstudy.store import documents, files
from qlrstudy.store.documents import SCHEMA, Lines
from qlrstudy.store.files import DamagedError, StoreError, UnreadableError
from qlrstudy.store.manifest import Count, Number

FOLDER = "tunings"
_MOST_TRIALS = 1_000_000


def trial_seed(seed: int, trial: int) -> int:
    """The seed of a tuning's trial, by that of the tuning; no repetition has it."""
    return _MOST_TRIALS * (1 + seed) + trial


def trial_of(seed: int) -> int:
    """The number of the trial that has a seed."""
    return seed % _MOST_TRIALS


class TuningIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """All that decides which trials there are, and how they are judged.

    `search` has the kind of each setting's space and its bounds; the other names are
    those of a run's identity and of the tuning.
    """

    task: str
    scale: str
    algorithm: str
    search: dict[str, tuple[str, float, float]]
    batch_sizes: tuple[int, ...]
    sequence_lengths: tuple[int, ...]
    budget: dict[Unit, Number]
    metric: str
    resource: str
    seconds: Number
    seed: int
    data: dict[str, str]
    examples: dict[str, int]


class Event(enum.StrEnum):
    """A decision at a rung, or what became of a trial at its end; see `Status`."""

    CONTINUE = "continue"
    STOP = "stop"
    FINISHED = "finished"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    FAILED = "failed"


class Entry(msgspec.Struct, frozen=True):
    """A line of the log: a decision at a milestone, or a trial's end.

    Attributes:
        trial: its number.
        event: what happened.
        at: how much of the resource the trial has had.
        loss: the metric, there; null where it is not finite.
        milestone: of the rung; `None` for an end.
    """

    trial: Count
    event: Event
    at: float
    loss: float | None
    milestone: float | None = None

    @property
    def score(self) -> float:
        """The loss, infinite where it is not finite."""
        loss = math.inf if self.loss is None else self.loss
        return loss if math.isfinite(loss) else math.inf


class TuningDirectory:
    """One tuning's place in a store.

    Args:
        path: its directory, there or yet to be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(self) -> contextlib.AbstractContextManager[None]:
        """Keep other searches from the same tuning; see `files.locked`."""
        return files.locked(self.path / ".lock")

    def begin(self, identity: TuningIdentity) -> None:
        """Say what is searched, if that is not there already.

        Raises:
            NewerError: a later version has said so.
        """
        known = None
        with contextlib.suppress(DamagedError):
            known = self.identity()
        if known is None:
            said = {"schema": SCHEMA} | msgspec.to_builtins(identity)
            documents.write_json(self.path / "tuning.json", said)

    def append(self, entry: Entry) -> None:
        """Add a decision or an end; it is on the disk before anything follows."""
        documents.append_line(self.path / "log.jsonl", entry)
        files.synchronise(self.path / "log.jsonl")

    def log(self) -> Lines[Entry]:
        """The decisions and ends, in order."""
        return documents.read_lines(self.path / "log.jsonl", Entry)

    def finish(self, best: Mapping[str, float]) -> None:
        """Say what won.

        Raises:
            NewerError: a later version has said so.
        """
        with contextlib.suppress(DamagedError):
            self.best()
        documents.write_json(self.path / "best.json", best)

    def identity(self) -> TuningIdentity | None:
        """What is searched."""
        return documents.read_json(self.path / "tuning.json", TuningIdentity)

    def best(self) -> dict[str, Number] | None:
        """What won, or `None` before the end."""
        return documents.read_json(self.path / "best.json", dict[str, Number])


def tuning_directories(store: Path) -> Iterator[TuningDirectory]:
    """Every tuning of a store."""
    for path in sorted(store.glob(f"{FOLDER}/*/tuning.json")):
        yield TuningDirectory(path.parent)


def best_settings(
    store: Path, task: str, algorithm: str, scale: str
) -> dict[str, Number]:
    """The winner of the one tuning of an algorithm on a task, at its scale if any is.

    Raises:
        StoreError: there is none yet, or more than one.
    """
    found: dict[Path, tuple[str, dict[str, Number]]] = {}
    for directory in tuning_directories(store):
        try:
            known, best = directory.identity(), directory.best()
        except UnreadableError:
            if directory.path.name.startswith(f"{task}-{algorithm}-"):
                raise
            continue
        if known is not None and best is not None:
            if (known.task, known.algorithm) == (task, algorithm):
                found[directory.path / "best.json"] = known.scale, best
    same = {path: pair for path, pair in found.items() if pair[0] == scale} or found
    if len(same) != 1:
        names = ", ".join(map(str, same))
        raise StoreError(
            f"--hyperparameters best: the store {store} has {len(same)} finished "
            f"tunings of algorithm {algorithm!r} on task {task!r}; "
            + (f"name one: {names}" if same else "run `qlrstudy tune` first")
        )
    ((_, best),) = same.values()
    return best
