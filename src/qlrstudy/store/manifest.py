"""What a run says of itself: all that decides its numbers, and what became of it."""

import enum
import hashlib
import json
from typing import Annotated, TypedDict

import msgspec

from qlrstudy.spec import SourceFile, Unit
from qlrstudy.store.documents import SCHEMA as SCHEMA

_LARGEST = 2**63 - 1  # NumPy's; JSON has no limit
Number = Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)] | float
Count = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]


class Status(enum.StrEnum):
    """What has become of a run.

    A run that says it is running may have lost its process; only a lock tells.
    """

    RUNNING = "running"
    INTERRUPTED = "interrupted"  # kept for later
    FINISHED = "finished"
    DIVERGED = "diverged"  # a loss was not finite
    STOPPED = "stopped"  # by the search whose trial it was
    FAILED = "failed"  # given up after an error; the same command tries again

    @property
    def is_final(self) -> bool:
        """Whether nothing more will come of the run."""
        return self in (Status.FINISHED, Status.DIVERGED, Status.STOPPED)


class SearchRange(TypedDict, total=False):
    """Where a setting is tuned: one of some choices, or between two bounds.

    `complement` is for bounds of one minus the setting.
    """

    choices: list[int]
    low: float
    high: float
    complement: bool


class Titles(msgspec.Struct, frozen=True):
    """In the paper's tables."""

    task: str
    algorithm: str


class Machine(msgspec.Struct, frozen=True):
    """Where a run was made."""

    host: str
    system: str
    processor: str
    cores: int | None
    backend: str
    devices: list[str]


class Identity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that decides a run's numbers; two runs are one if these agree.

    Args:
        schema: of the manifest.
        task: by name, as `scale` and `algorithm`.
        scale: of the task.
        algorithm: what learns it.
        hyperparameters: the batch's shape and the algorithm's settings.
        seed: of all chance.
        budget: how long to train, the amount by its unit.
        data: the files' sums, by name.
        examples: of each split.
        version: of the algorithm, where it has one.
    """

    schema: Count
    task: str
    scale: str
    algorithm: str
    hyperparameters: dict[str, Number]
    seed: Count
    budget: dict[Unit, Number]
    data: dict[str, str]
    examples: dict[str, Count]
    version: str = ""


class Manifest(Identity, frozen=True, kw_only=True, omit_defaults=True):
    """A run's identity, what it was made with, and what became of it.

    Args:
        status: see there.
        titles: of the task and the algorithm.
        search: where the settings are tuned, for those who read a run without its code.
        caveats: why the numbers are not those of the paper's protocol.
        sources: the files read.
        started: when, in ISO's form.
        versions: of the packages, by name.
        commit: of the code, marked where files were changed since.
        machine: where.
        steps: taken, of a run that is not under way.
        compile_seconds: likewise.
        last: its last evaluation, by the fields of a `Record`; null for no number.
        error: of a run that was given up.
        checksums: of the files that stay, by name, of a run that has ended.
    """

    status: Status
    titles: Titles | None = None
    search: dict[str, SearchRange] | None = None
    caveats: tuple[str, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    started: str = ""
    versions: dict[str, str] = {}
    commit: str | None = None
    machine: Machine | None = None
    steps: int | None = None
    compile_seconds: float | None = None
    last: dict[str, Number | None] | None = None
    error: str | None = None
    checksums: dict[str, str] | None = None


def digest(identity: msgspec.Struct) -> str:
    """A name for all that decides some numbers: equal for equal values."""
    text = json.dumps(msgspec.to_builtins(identity), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
