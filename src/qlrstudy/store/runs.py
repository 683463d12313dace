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
import functools
import math
import re
import uuid
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from qlrstudy.spec import Record, StepReport
from qlrstudy.store import documents, files
from qlrstudy.store.documents import Lines
from qlrstudy.store.files import DamagedError, Extent, UnreadableError
from qlrstudy.store.manifest import Count, Identity, Manifest, Number, Status, digest

# The accuracy is in the evaluations alone: so it was before there was one.
_STEP_FIELDS = ("loss", "step_size", "damping", "reduction_ratio")
_ROW = np.dtype([(name, "<f4") for name in _STEP_FIELDS])
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


# What only grows; a run is taken up again with as much of each as at its checkpoint.
_GROWING = ("records.jsonl", "positions.jsonl", "steps.f32")
# What stays of a run that has ended, and is read again.
_KEPT = ("records.jsonl", "positions.jsonl", "steps.parquet", "steps.jsonl")
_CLOSE = 1e-4  # archives round


_MARK = re.compile(rb"[0-9a-f]{32}")
_MARK_SECONDS = 60.0
_BROKEN = (OSError, ValueError, KeyError, TypeError, EOFError, SyntaxError)
_BROKEN += (IndexError, OverflowError, MemoryError, NotImplementedError, RuntimeError)


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
        return documents.read_json(self.path / "manifest.json", Manifest)

    def ended(self) -> Ended | None:
        """How the run ended, or `None` if there is something left to do.

        Raises:
            DamagedError: it cannot be told, so that the run must be done again.
            NewerError: it is of a later version.
        """
        manifest = self.manifest()
        if manifest is None or not manifest.status.is_final:
            return None
        return Ended(manifest, self._whole_records(manifest)[-1])

    def _whole_records(self, manifest: Manifest) -> list[Record]:
        """All evaluations of a run that has ended.

        Raises:
            DamagedError: they are not those of its manifest.
        """
        path = self.path / "records.jsonl"
        self.compare(manifest, path.name)
        records, damage = self.read_records()
        if damage:
            raise damage[0]
        if not records:
            raise DamagedError(path, "holds no evaluation of a run that has ended")
        # The last look at a run that was stopped is none of its evaluations.
        if manifest.last is not None and manifest.status != Status.STOPPED:
            if not _agree(manifest.last, records[-1]._asdict()):
                raise DamagedError(path, "lacks the last evaluation of its manifest")
        return records

    def compare(self, manifest: Manifest, name: str) -> None:
        """Compare a file of a run that has ended with what its manifest says of it.

        Raises:
            DamagedError: it is another one.
        """
        expected = (manifest.checksums or {}).get(name)
        path = self.path / name
        if expected is not None and expected != _checksum(path):
            problem = "was changed since it was written" if path.exists() else "is gone"
            raise DamagedError(path, f"is damaged (it {problem})")

    def damage(self) -> list[UnreadableError]:
        """What is wrong with a run that says it has ended, file by file."""
        found: list[UnreadableError] = []
        manifest = self.manifest()
        if manifest is None or not manifest.status.is_final:
            return found
        looks = [functools.partial(self.compare, manifest, name) for name in _KEPT[1:]]
        for look in (functools.partial(self._whole_records, manifest), *looks):
            try:
                look()
            except UnreadableError as error:
                found.append(error)
        return found

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest, all or nothing."""
        documents.write_json(self.path / "manifest.json", manifest)

    def append_record(self, record: Record) -> None:
        """Add an evaluation."""
        documents.append_line(self.path / "records.jsonl", record._asdict())

    def append_position(self, step: int, params: Sequence[float]) -> None:
        """Add where the parameters are, for a task whose path is drawn."""
        line = {"step": step, "params": params}
        documents.append_line(self.path / "positions.jsonl", line)

    def append_steps(self, reports: StepReport) -> None:
        """Add what a stretch of steps said of itself."""
        rows = np.empty(len(reports.loss), _ROW)
        for name in _STEP_FIELDS:
            rows[name] = getattr(reports, name)
        files.append(self.path / "steps.f32", rows.tobytes())

    def read_records(self) -> Lines[Record]:
        """All evaluations in order; of two of one step, the later counts."""
        lines, damage = documents.read_lines(self.path / "records.jsonl", _RecordLine)
        by_step: dict[int, Record] = {}
        for step, *values in map(msgspec.structs.astuple, lines):
            by_step[step] = Record(step, *map(_number, values))
        return Lines([by_step[step] for step in sorted(by_step)], damage)

    def records(self) -> list[Record]:
        """The evaluations that can be read."""
        return self.read_records().values

    def positions(self) -> list[list[float]]:
        """Where the parameters were at each evaluation; none if nobody asked."""
        lines = documents.read_lines(
            self.path / "positions.jsonl", _PositionLine
        ).values
        by_step = {line.step: line.params for line in lines}
        return [[*map(_number, by_step[step])] for step in sorted(by_step)]

    def steps(self) -> StepReport:
        """What each step said of itself."""
        parquet, raw = self.path / "steps.parquet", self.path / "steps.f32"
        if parquet.exists():
            try:
                table = pq.read_table(parquet)
                columns = [np.asarray(table[name], np.float32) for name in _STEP_FIELDS]
            except (*_BROKEN, pa.ArrowException) as error:
                raise DamagedError(parquet, f"cannot be read ({error})") from error
            return _step_report(columns)
        content = files.content(raw) or b""
        whole = len(content) // _ROW.itemsize * _ROW.itemsize
        rows = np.frombuffer(content[:whole], _ROW)
        return _step_report([rows[name] for name in _STEP_FIELDS])

    def some_steps(self, most: int) -> SomeSteps:
        """At most so many of the steps, spread evenly; or what an archive kept of them.

        The first and the last are among them, and the last with a finite loss.
        """
        lines = documents.read_lines(self.path / "steps.jsonl", _StepLine).values
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
        for name in _GROWING:
            files.synchronise(self.path / name)
        leaves = {f"leaf_{i:04}": leaf for i, leaf in enumerate(checkpoint.leaves)}
        with files.replacing(self.path / "checkpoint.npz") as file:
            np.savez(
                file,
                step=checkpoint.step,
                training_seconds=checkpoint.training_seconds,
                compile_seconds=checkpoint.compile_seconds,
                extents=[files.extent(self.path / name) for name in _GROWING],
                **leaves,  # pyright: ignore[reportArgumentType] - arrays by name
            )

    def restore(self) -> Checkpoint | None:
        """The last checkpoint; what was appended after it is dropped.

        Without one the run begins anew, and nothing of an earlier beginning is left.

        Raises:
            DamagedError: it cannot be taken up again: `clear` it, and begin anew.
        """
        path = self.path / "checkpoint.npz"
        if not path.exists():
            self.clear()
            return None
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                names = sorted(name for name in file.files if name.startswith("leaf_"))
                checkpoint = Checkpoint(
                    int(file["step"]),
                    float(file["training_seconds"]),
                    float(file["compile_seconds"]),
                    [file[name] for name in names],
                )
                extents = [Extent(*map(int, row)) for row in file["extents"]]
        # NumPy and zipfile fail in many ways, some with the advice to unpickle.
        except (*_BROKEN, zipfile.BadZipFile, zlib.error) as error:
            raise DamagedError(path, f"is damaged ({type(error).__name__})") from error
        for name, extent in zip(_GROWING, extents, strict=True):
            files.cut_back(self.path / name, extent)
        damage = self.read_records().damage
        if damage:
            raise damage[0]
        return checkpoint

    def clear(self) -> None:
        """Remove all but the manifest, which is of what is to be done as well."""
        self._remove("checkpoint.npz", "evaluations.parquet", *_GROWING, *_KEPT)

    def close(self, manifest: Manifest) -> None:
        """End the run: columns for analysis, the last manifest, nothing left over."""
        rows = pa.Table.from_pylist([record._asdict() for record in self.records()])
        self._write_table("evaluations.parquet", rows)
        steps = self.steps()
        columns = {name: getattr(steps, name) for name in _STEP_FIELDS}
        self._write_table("steps.parquet", pa.table(columns))
        self._end(manifest)
        self._remove("steps.f32")

    def stop(self) -> None:
        """Mark an interrupted run as one that nobody will go on with."""
        known = self.manifest()
        if known is not None:
            self._end(msgspec.structs.replace(known, status=Status.STOPPED))

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

    def _end(self, manifest: Manifest) -> None:
        sums = {n: _checksum(self.path / n) for n in _KEPT if (self.path / n).exists()}
        self.write_manifest(msgspec.structs.replace(manifest, checksums=sums))
        self._remove("checkpoint.npz")

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


def read_whole_runs(store: Path) -> StoredRuns:
    """Likewise, but of those that have ended only the ones that are as they were."""
    found = read_runs(store)
    for path, manifest in [*found.manifests.items()]:
        problems = RunDirectory(path).damage() if manifest.status.is_final else []
        found.damage.extend(problems)
        if problems:
            del found.manifests[path]
    return found


def run_directory(store: Path, identity: Identity) -> RunDirectory:
    """The place of a run, by all that decides its numbers."""
    name = f"{identity.task}-{identity.algorithm}-seed{identity.seed}"
    return RunDirectory(store / f"{name}-{digest(identity)}")


def mark(store: Path) -> str:
    """A store's own mark, by which a process on another machine knows it again."""
    path = store / ".mark"
    with files.locked(store / ".mark.lock", wait=_MARK_SECONDS):
        known = files.content(path) or b""
        if not _MARK.fullmatch(known):
            known = uuid.uuid4().hex.encode()
            with files.replacing(path) as file:
                file.write(known)
    return known.decode()


def is_marked(store: Path, text: str) -> bool:
    """Whether this is the store with that mark, and not another at the same path."""
    return files.content(store / ".mark") == text.encode()


def _checksum(path: Path) -> str:
    return f"{files.extent(path).checksum:08x}"


def _agree(one: Mapping[str, Number | None], other: Mapping[str, Number]) -> bool:
    """Whether two evaluations are the same but for an archive's rounding."""
    pairs = [(_number(value), other[name]) for name, value in one.items()]
    return all(
        math.isclose(a, b, rel_tol=_CLOSE) or not (math.isfinite(a) or math.isfinite(b))
        for a, b in pairs
    )


def _step_report(columns: Sequence[np.ndarray]) -> StepReport:
    return StepReport(*columns)._replace(accuracy=np.full(len(columns[0]), np.nan))


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
