"""What a run tells those who watch it, and those who wait for its end."""

from pathlib import Path
from typing import NamedTuple

from qlrstudy.spec import Record, StepReport
from qlrstudy.store.manifest import Status


class Progress(NamedTuple):
    """Where a run is: for those who watch it."""

    step: int
    epoch: float
    done: float
    report: StepReport
    record: Record
    training_seconds: float


class Outcome(NamedTuple):
    """How a run ended, and its last evaluation.

    Attributes:
        status: finished, diverged or interrupted.
        record: the last evaluation.
        compile_seconds: all told.
        path: where it is stored.
        step: up to which it has been trained and can be taken up again.
        found: whether the store had it, and nothing was trained.
        damage: what the store had of it and could not be read, if any.
    """

    status: Status
    record: Record
    compile_seconds: float
    path: Path
    step: int
    found: bool = False
    damage: str = ""
