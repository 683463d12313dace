"""What there is to do: runs, what follows from them, and who gets which."""

import dataclasses
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from qlrstudy.spec import Record, Run
from qlrstudy.store.manifest import Identity, Status
from qlrstudy.training.outcome import Progress


class Pauses(NamedTuple):
    """Where a run stops to ask: values, in order, of a field of its records."""

    field: str
    values: tuple[float, ...]


class Ending(NamedTuple):
    """How a job ended; `found` if the store had it and nothing was done."""

    status: Status
    record: Record | None
    error: str = ""
    found: bool = False


# Compared by identity: it is under way or not.
@dataclasses.dataclass(eq=False)
class Job:
    """A run to be done, and what follows from it.

    Args:
        run: what to do.
        place: its directory, relative to the store.
        identity: the first part of its manifest.
        group: jobs of one group share compiled programs.
        trial: its number, in a tuning; `None` for a repetition.
        pauses: where to ask `judge`.
        judge: whether a run is worth going on with, by its last record.
        ended: told of the end; returns the jobs that can now begin.
        attempts: how often it has failed.
        not_before: the time of the driver's clock before which it is not begun.
        damage: what the store had of it and could not be read, if any.
    """

    run: Run
    place: str
    identity: Identity
    group: Hashable
    trial: int | None = None
    pauses: Pauses | None = None
    judge: Callable[[Record], bool] = lambda record: True
    ended: Callable[[Ending], Iterable["Job"]] = lambda ending: ()
    attempts: int = 0
    not_before: float = 0.0
    damage: str = ""


class RunningJob(NamedTuple):
    """A job on a worker, and where it is."""

    job: Job
    progress: Progress | None


class Snapshot(NamedTuple):
    """How far the work is: for those who watch."""

    waiting: int
    running: list[RunningJob]
    ended: list[tuple[Job, Ending]]


class Queue:
    """Jobs that wait, by group, in the order in which they came."""

    def __init__(self) -> None:
        self.groups: dict[Hashable, deque[Job]] = {}

    def __len__(self) -> int:
        return sum(map(len, self.groups.values()))

    def add(self, job: Job, *, first: bool = False) -> None:
        """Put a job behind its group, or before it."""
        group = self.groups.setdefault(job.group, deque())
        group.appendleft(job) if first else group.append(job)

    def take(self, own: Hashable, others: set[Hashable], now: float) -> Job | None:
        """The next of a worker's own group, or of a new one, or of the longest."""
        order = sorted(
            self.groups,
            key=lambda g: (g != own, g in others, -len(self.groups[g]) * (g in others)),
        )
        for group in order:
            for job in self.groups[group]:
                if job.not_before <= now:
                    self.groups[group].remove(job)
                    if not self.groups[group]:
                        del self.groups[group]
                    return job
        return None
