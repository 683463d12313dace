"""Runs on disk: a directory each, readable at any moment, also after a `kill -9`.

    STORE/<task>-<algorithm>-seed<seed>-<identity>/
        manifest.json        what was run, with what, where; status and summary
        records.jsonl        one line for each evaluation, only ever appended to
        positions.jsonl      one line for each evaluation of a task whose path is drawn
        steps.f32            each step's `StepReport`, four float32 a row, appended to
        checkpoint.npz       where to take the run up again; gone when it is finished
        evaluations.parquet  `records.jsonl` and `steps.f32` in columns, once
        steps.parquet        the run has ended
        .lock                held by the process that writes

A run that comes from an archive has `steps.jsonl`, a line for each of some of its
steps, in place of the columns.

A run's name comes from its settings, so the same command finds the same directory and
no two writers need to agree on anything.
"""

import contextlib
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from qlrstudy.spec import Record, StepReport
from qlrstudy.store import files
from qlrstudy.store.files import DamagedError, Lines, NewerError, UnreadableError
from qlrstudy.store.manifest import SCHEMA, Identity, Manifest, Number, Status, digest

# The accuracy is in the evaluations alone: so it was before there was one.
_STEP_FIELDS = ("loss", "step_size", "damping", "reduction_ratio")
_ROW = np.dtype([(name, "<f4") for name in _STEP_FIELDS])
_RecordLine = msgspec.defstruct(
    "_RecordLine",
    [
        ("step", int),
        *(
            (name, Number | None, None)
            if name in Record._field_defaults
            else (name, Number | None)
            for name in Record._fields[1:]
        ),
    ],
)


class _PositionLine(msgspec.Struct):
    step: int
    params: list[float | None]


class _StepLine(msgspec.Struct):
    step: int
    loss: Number | None
    step_size: Number | None
    damping: Number | None
    reduction_ratio: Number | None


class _Schema(msgspec.Struct):
    schema: int


class Checkpoint(NamedTuple):
    """Where to take a run up again."""

    step: int
    training_seconds: float
    compile_seconds: float
    leaves: list[np.ndarray]


class Ended(NamedTuple):
    """A run of which nothing more will come, and its last evaluation."""

    manifest: Manifest
    record: Record


class SomeSteps(NamedTuple):
    """Some steps of a run by their numbers, the first being 1, and what each said."""

    numbers: np.ndarray
    report: StepReport


class RunDirectory:
    """One run's place in a store.

    Args:
        path: its directory, there or yet to be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(self) -> contextlib.AbstractContextManager[None]:
        """Keep other writers out, or say that there is one; see `files.locked`."""
        return files.locked(self.path / ".lock")

    def is_claimed(self) -> bool:
        """Whether some process is writing the run at this moment."""
        return files.is_locked(self.path / ".lock")

    def manifest(self) -> Manifest | None:
        """What is known of the run, or `None` for one that never began.

        Raises:
            DamagedError: the manifest cannot be read.
            NewerError: it is of a later version.
        """
        path = self.path / "manifest.json"
        known = files.read_json(path, _Schema)
        if known is not None and known.schema > SCHEMA:
            raise NewerError(
                path,
                f"its schema is {known.schema}, and this version of qlrstudy reads "
                f"{SCHEMA}; install a later one",
            )
        return files.read_json(path, Manifest)

    def ended(self) -> Ended | None:
        """How the run ended, or `None` if there is something left to do.

        Raises:
            DamagedError: it cannot be told, so that the run must be done again.
            NewerError: it is of a later version.
        """
        manifest = self.manifest()
        if manifest is None or not manifest.status.is_final:
            return None
        records = self.records()
        if not records:
            path = self.path / "records.jsonl"
            raise DamagedError(path, "holds no evaluation of a run that has ended")
        return Ended(manifest, records[-1])

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest, all or nothing."""
        files.write_json(self.path / "manifest.json", manifest)

    def append_record(self, record: Record) -> None:
        """Add an evaluation."""
        files.append_line(self.path / "records.jsonl", record._asdict())

    def append_position(self, step: int, params: Sequence[float]) -> None:
        """Add where the parameters are, for a task whose path is drawn."""
        line = {"step": step, "params": params}
        files.append_line(self.path / "positions.jsonl", line)

    def append_steps(self, reports: StepReport) -> None:
        """Add what a stretch of steps said of itself."""
        rows = np.empty(len(reports.loss), _ROW)
        for name in _STEP_FIELDS:
            rows[name] = getattr(reports, name)
        files.append(self.path / "steps.f32", rows.tobytes())

    def read_records(self) -> Lines[Record]:
        """All evaluations in order; of two of one step, the later counts."""
        lines, damage = files.read_lines(self.path / "records.jsonl", _RecordLine)
        by_step: dict[int, Record] = {}
        for step, *values in map(msgspec.structs.astuple, lines):
            by_step[step] = Record(step, *map(_number, values))
        return Lines([by_step[step] for step in sorted(by_step)], damage)

    def records(self) -> list[Record]:
        """The evaluations that can be read."""
        return self.read_records().values

    def positions(self) -> list[list[float]]:
        """Where the parameters were at each evaluation; none if nobody asked."""
        lines = files.read_lines(self.path / "positions.jsonl", _PositionLine).values
        by_step = {line.step: line.params for line in lines}
        return [[*map(_number, by_step[step])] for step in sorted(by_step)]

    def steps(self) -> StepReport:
        """What each step said of itself."""
        parquet, raw = self.path / "steps.parquet", self.path / "steps.f32"
        if parquet.exists():
            table = pq.read_table(parquet)
            return _step_report([table[name].to_numpy() for name in _STEP_FIELDS])
        content = raw.read_bytes() if raw.exists() else b""
        whole = len(content) // _ROW.itemsize * _ROW.itemsize
        rows = np.frombuffer(content[:whole], _ROW)
        return _step_report([rows[name] for name in _STEP_FIELDS])

    def some_steps(self, most: int) -> SomeSteps:
        """At most so many of the steps, spread evenly; or what an archive kept of them.

        The first and the last are among them, and the last with a finite loss.
        """
        lines = files.read_lines(self.path / "steps.jsonl", _StepLine).values
        if lines:
            numbers = np.array([line.step for line in lines])
            columns = [
                np.array([_number(getattr(line, name)) for line in lines])
                for name in _STEP_FIELDS
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

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint, once all that came before it is on the disk."""
        for name in ("steps.f32", "records.jsonl"):
            files.synchronise(self.path / name)
        leaves = {f"leaf_{i:04}": leaf for i, leaf in enumerate(checkpoint.leaves)}
        with files.replacing(self.path / "checkpoint.npz") as file:
            np.savez(
                file,
                step=checkpoint.step,
                training_seconds=checkpoint.training_seconds,
                compile_seconds=checkpoint.compile_seconds,
                **leaves,  # pyright: ignore[reportArgumentType] - arrays by name
            )

    def restore(self) -> Checkpoint | None:
        """The last checkpoint; what was appended after it is dropped.

        Without one the run begins anew, and nothing of an earlier beginning is left.
        """
        path = self.path / "checkpoint.npz"
        if not path.exists():
            self._remove("records.jsonl", "positions.jsonl", "evaluations.parquet")
            self._remove("steps.f32", "steps.parquet")
            return None
        with np.load(path, allow_pickle=False) as file:
            names = sorted(name for name in file.files if name.startswith("leaf_"))
            checkpoint = Checkpoint(
                int(file["step"]),
                float(file["training_seconds"]),
                float(file["compile_seconds"]),
                [file[name] for name in names],
            )
        steps = self.path / "steps.f32"
        with files.explained(steps):
            os.truncate(steps, checkpoint.step * _ROW.itemsize)
        return checkpoint

    def close(self, manifest: Manifest) -> None:
        """End the run: columns for analysis, the last manifest, nothing left over."""
        rows = pa.Table.from_pylist([record._asdict() for record in self.records()])
        self._write_table("evaluations.parquet", rows)
        steps = self.steps()
        columns = {name: getattr(steps, name) for name in _STEP_FIELDS}
        self._write_table("steps.parquet", pa.table(columns))
        self.write_manifest(manifest)
        self._remove("steps.f32", "checkpoint.npz")

    def stop(self) -> None:
        """Mark an interrupted run as one that nobody will go on with."""
        known = self.manifest()
        if known is not None:
            self.write_manifest(msgspec.structs.replace(known, status=Status.STOPPED))
        self._remove("checkpoint.npz")

    def files(self) -> dict[str, bytes]:
        """All that is there of the run, to be sent to another store."""
        if not self.path.exists():
            return {}
        names = [p for p in self.path.iterdir() if not p.name.startswith(".")]
        return {path.name: path.read_bytes() for path in names}

    def adopt(self, sent: Mapping[str, bytes]) -> None:
        """Take over a run from another store, its manifest last of all."""
        with self.claim():
            for name in sorted(sent, key=lambda name: name == "manifest.json"):
                with files.replacing(self.path / Path(name).name) as file:
                    file.write(sent[name])

    def _remove(self, *names: str) -> None:
        for path in (self.path / name for name in names):
            with files.explained(path):
                path.unlink(missing_ok=True)

    def _write_table(self, name: str, table: pa.Table) -> None:
        with files.replacing(self.path / name) as file:
            pq.write_table(table, file, compression="zstd")


class StoredRuns(NamedTuple):
    """The runs of a store, finished or not, and what could not be read of them."""

    manifests: dict[Path, Manifest]
    damage: list[UnreadableError]


def read_runs(store: Path) -> StoredRuns:
    """Every run in a store, by its directory."""
    found = StoredRuns({}, [])
    for path in sorted(store.glob("*/manifest.json")):
        try:
            manifest = RunDirectory(path.parent).manifest()
        except UnreadableError as error:
            found.damage.append(error)
        else:
            if manifest is not None:
                found.manifests[path.parent] = manifest
    return found


def run_directory(store: Path, identity: Identity) -> RunDirectory:
    """The place of a run, by all that decides its numbers."""
    name = f"{identity.task}-{identity.algorithm}-seed{identity.seed}"
    return RunDirectory(store / f"{name}-{digest(identity)}")


def mark(store: Path) -> str:
    """A store's own mark, by which a process on another machine knows it again."""
    path = store / ".mark"
    if not path.exists():
        with files.replacing(path) as file:
            file.write(uuid.uuid4().hex.encode())
    return path.read_text()


def is_marked(store: Path, text: str) -> bool:
    """Whether this is the store with that mark, and not another at the same path."""
    path = store / ".mark"
    return path.exists() and path.read_text() == text


def _step_report(columns: Sequence[np.ndarray]) -> StepReport:
    return StepReport(*columns)._replace(accuracy=np.full(len(columns[0]), np.nan))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
