"""What a run writes while it goes: evaluations, positions and steps, by lines or rows.

Of each file the run's directory has, and `runs` says which of them are there when.
NumPy and pyarrow are loaded by those who ask for steps: who counts runs needs neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from qlrstudy.spec import Record, StepReport
from qlrstudy.store import documents, files
from qlrstudy.store.documents import Lines
from qlrstudy.store.files import BROKEN, DamagedError
from qlrstudy.store.manifest import Count, Number

if TYPE_CHECKING:
    import numpy as np

# The accuracy is in the evaluations alone: so it was before there was one.
STEP_FIELDS = ("loss", "step_size", "damping", "reduction_ratio")
_ROW = [(name, "<f4") for name in STEP_FIELDS]
_RecordLine = msgspec.defstruct(
    "_RecordLine",
    [
        ("step", Count),
        *(
            (name, Number | None, None)
            if name in Record._field_defaults
            else (name, Number | None)
            for name in Record._fields[1:]
        ),
    ],
)


class _PositionLine(msgspec.Struct):
    step: Count
    params: list[float | None]


class _StepLine(msgspec.Struct):
    step: Count
    loss: Number | None
    step_size: Number | None
    damping: Number | None
    reduction_ratio: Number | None


class Position(NamedTuple):
    """Where the parameters were after so many steps."""

    step: int
    params: list[float]


class SomeSteps(NamedTuple):
    """Some steps of a run by their numbers, the first being 1, and what each said."""

    numbers: np.ndarray
    report: StepReport


class History:
    """What is known of a run's course.

    Args:
        path: the run's directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append_record(self, record: Record) -> None:
        """Add an evaluation."""
        documents.append_line(self.path / "records.jsonl", record._asdict())

    def append_position(self, step: int, params: Sequence[float]) -> None:
        """Add where the parameters are, for a task whose path is drawn."""
        line = {"step": step, "params": params}
        documents.append_line(self.path / "positions.jsonl", line)

    def append_steps(self, reports: StepReport) -> None:
        """Add what a stretch of steps said of itself."""
        import numpy as np

        rows = np.empty(len(reports.loss), _ROW)
        for name in STEP_FIELDS:
            rows[name] = getattr(reports, name)
        files.append(self.path / "steps.f32", rows.tobytes())

    def read_records(self) -> Lines[Record]:
        """All evaluations in order; of two of one step, the later counts."""
        lines, damage = documents.read_lines(self.path / "records.jsonl", _RecordLine)
        by_step: dict[int, Record] = {}
        for step, *values in map(msgspec.structs.astuple, lines):
            by_step[step] = Record(step, *map(number, values))
        return Lines([by_step[step] for step in sorted(by_step)], damage)

    def records(self) -> list[Record]:
        """The evaluations that can be read."""
        return self.read_records().values

    def positions(self) -> list[Position]:
        """Where the parameters were at each evaluation; none if nobody asked."""
        path = self.path / "positions.jsonl"
        lines = documents.read_lines(path, _PositionLine).values
        by_step = {line.step: [*map(number, line.params)] for line in lines}
        return [Position(step, by_step[step]) for step in sorted(by_step)]

    def steps(self) -> StepReport:
        """What each step said of itself."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        parquet, raw = self.path / "steps.parquet", self.path / "steps.f32"
        if parquet.exists():
            try:
                table = pq.read_table(parquet)
                columns = [np.asarray(table[name], np.float32) for name in STEP_FIELDS]
            except (*BROKEN, pa.ArrowException) as error:
                raise DamagedError(parquet, f"cannot be read ({error})") from error
            return _step_report(columns)
        content, size = files.content(raw) or b"", np.dtype(_ROW).itemsize
        rows = np.frombuffer(content[: len(content) // size * size], _ROW)
        return _step_report([rows[name] for name in STEP_FIELDS])

    def some_steps(self, most: int) -> SomeSteps:
        """At most so many of the steps, spread evenly; or what an archive kept of them.

        The first and the last are among them, and the last with a finite loss.
        """
        import numpy as np

        lines = documents.read_lines(self.path / "steps.jsonl", _StepLine).values
        if lines:
            numbers = np.array([line.step for line in lines])
            columns = [
                np.array([number(getattr(line, name)) for line in lines])
                for name in STEP_FIELDS
            ]
            return SomeSteps(numbers, _step_report(columns))
        steps = self.steps()
        losses = np.asarray(steps.loss)
        count = len(losses)
        spread = np.linspace(0, count - 1, min(count, most)).astype(int)
        finite = np.flatnonzero(np.isfinite(losses))[-1:]
        places = np.unique(np.concatenate([spread, finite]))
        kept = StepReport(*[np.asarray(values)[places] for values in steps])
        return SomeSteps(places + 1, kept)


def _step_report(columns: Sequence[np.ndarray]) -> StepReport:
    import numpy as np

    return StepReport(*columns)._replace(accuracy=np.full(len(columns[0]), np.nan))


def number(value: float | None) -> float:
    """A number as JSON has it, where one that is not finite is null."""
    return float("nan") if value is None else value
