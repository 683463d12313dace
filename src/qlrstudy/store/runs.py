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

A run's name comes from its settings, so the same command finds the same directory and
no two writers need to agree on anything. Whole files are written beside their place and
renamed into it, which network disks do atomically too. The lock is the operating
system's: it ends with the process that held it, however that ended.
"""

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import filelock
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from qlrstudy.spec import Record, StepReport

SCHEMA = 1
_ROW = np.dtype([(name, "<f4") for name in StepReport._fields])


class StoreError(Exception):
    """A store that cannot be written: where, why, and the cure."""


class BusyError(StoreError):
    """A run that another process is writing."""


class Checkpoint(NamedTuple):
    """Where to take a run up again."""

    step: int
    training_seconds: float
    compile_seconds: float
    leaves: list[np.ndarray]


class RunDirectory:
    """One run's place in a store.

    Args:
        path: its directory, there or yet to be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def claim(self) -> Iterator[None]:
        """Keep other writers out, or say who is writing.

        Raises:
            BusyError: another process has the run.
            StoreError: nothing can be written here.
        """
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = filelock.FileLock(self.path / ".lock")
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                raise BusyError(
                    f"another process is writing the run {self.path}; wait for it, or "
                    "choose another --seed or --store"
                ) from None
        try:
            yield
        finally:
            lock.release()

    def manifest(self) -> dict[str, Any] | None:
        """What is known of the run, or `None` for one that never began."""
        path = self.path / "manifest.json"
        return json.loads(path.read_text()) if path.exists() else None

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace the manifest, all or nothing."""
        text = json.dumps(_without_nan(manifest), indent=2, allow_nan=False)
        with _replacing(self.path / "manifest.json") as file:
            file.write(text.encode() + b"\n")

    def append_record(self, record: Record) -> None:
        """Add an evaluation."""
        self._append_line("records.jsonl", record._asdict())

    def append_position(self, step: int, params: Sequence[float]) -> None:
        """Add where the parameters are, for a task whose path is drawn."""
        self._append_line("positions.jsonl", {"step": step, "params": params})

    def append_steps(self, reports: StepReport) -> None:
        """Add what a stretch of steps said of itself."""
        rows = np.empty(len(reports.loss), _ROW)
        for name, values in reports._asdict().items():
            rows[name] = values
        path = self.path / "steps.f32"
        with explained(path), path.open("ab") as file:
            file.write(rows.tobytes())

    def records(self) -> list[Record]:
        """All evaluations in order; of two of one step, the later counts."""
        return [
            Record(*[_from_json(values[name]) for name in Record._fields])
            for values in self._lines("records.jsonl")
        ]

    def positions(self) -> list[list[float]]:
        """Where the parameters were at each evaluation; none if nobody asked."""
        lines = self._lines("positions.jsonl")
        return [[_from_json(value) for value in line["params"]] for line in lines]

    def steps(self) -> StepReport:
        """What each step said of itself."""
        parquet, raw = self.path / "steps.parquet", self.path / "steps.f32"
        if parquet.exists():
            table = pq.read_table(parquet)
            columns = [table[name].to_numpy() for name in StepReport._fields]
            return StepReport(*columns)
        content = raw.read_bytes() if raw.exists() else b""
        whole = len(content) // _ROW.itemsize * _ROW.itemsize
        rows = np.frombuffer(content[:whole], _ROW)
        return StepReport(*[rows[name] for name in StepReport._fields])

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint, once all that came before it is on the disk."""
        for name in ("steps.f32", "records.jsonl"):
            _synchronise(self.path / name)
        leaves = {f"leaf_{i:04}": leaf for i, leaf in enumerate(checkpoint.leaves)}
        with _replacing(self.path / "checkpoint.npz") as file:
            np.savez(
                file,
                step=checkpoint.step,
                training_seconds=checkpoint.training_seconds,
                compile_seconds=checkpoint.compile_seconds,
                **leaves,  # pyright: ignore[reportArgumentType] - arrays by name
            )

    def restore(self) -> Checkpoint | None:
        """The last checkpoint; what was appended after it is dropped."""
        path = self.path / "checkpoint.npz"
        steps = self.path / "steps.f32"
        if not path.exists():
            with explained(steps):
                steps.unlink(missing_ok=True)
            return None
        with np.load(path, allow_pickle=False) as file:
            names = sorted(name for name in file.files if name.startswith("leaf_"))
            checkpoint = Checkpoint(
                int(file["step"]),
                float(file["training_seconds"]),
                float(file["compile_seconds"]),
                [file[name] for name in names],
            )
        with explained(steps):
            os.truncate(steps, checkpoint.step * _ROW.itemsize)
        return checkpoint

    def close(self, manifest: Mapping[str, Any]) -> None:
        """End the run: columns for analysis, the last manifest, nothing left over."""
        records = self.records()
        rows = pa.Table.from_pylist([record._asdict() for record in records])
        self._write_table("evaluations.parquet", rows)
        steps = self.steps()._asdict()
        self._write_table("steps.parquet", pa.table(steps))
        self.write_manifest(manifest)
        for name in ("steps.f32", "checkpoint.npz"):
            (self.path / name).unlink(missing_ok=True)

    def is_claimed(self) -> bool:
        """Whether some process is writing the run at this moment."""
        if not (self.path / ".lock").exists():
            return False
        try:
            with self.claim():
                return False
        except BusyError:
            return True

    def files(self) -> dict[str, bytes]:
        """All that is there of the run, to be sent to another store."""
        if not self.path.exists():
            return {}
        names = [p for p in self.path.iterdir() if not p.name.startswith(".")]
        return {path.name: path.read_bytes() for path in names}

    def adopt(self, files: Mapping[str, bytes]) -> None:
        """Take over a run from another store, its manifest last of all."""
        with self.claim():
            for name in sorted(files, key=lambda name: name == "manifest.json"):
                with _replacing(self.path / Path(name).name) as file:
                    file.write(files[name])

    def discard_checkpoint(self) -> None:
        """Free the space of a checkpoint that nobody will go on from."""
        (self.path / "checkpoint.npz").unlink(missing_ok=True)

    def _append_line(self, name: str, values: Mapping[str, Any]) -> None:
        line = json.dumps(_without_nan(values), allow_nan=False)
        path = self.path / name
        with explained(path), path.open("ab+") as file:
            # A line that a full disk or a kill cut short must not spoil this one.
            if file.tell() and not _ends_with_newline(file):
                file.write(b"\n")
            file.write(line.encode() + b"\n")

    def _lines(self, name: str) -> list[dict[str, Any]]:
        path = self.path / name
        lines = path.read_text().splitlines() if path.exists() else []
        found: dict[int, dict[str, Any]] = {}
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):
                values = json.loads(line)
                found[values["step"]] = values
        return [found[step] for step in sorted(found)]

    def _write_table(self, name: str, table: pa.Table) -> None:
        with _replacing(self.path / name) as file:
            pq.write_table(table, file, compression="zstd")


def run_directory(store: Path, identity: Mapping[str, Any]) -> RunDirectory:
    """The place of a run, by all that decides its numbers."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    task, algorithm, seed = (identity[k] for k in ("task", "algorithm", "seed"))
    return RunDirectory(store / f"{task}-{algorithm}-seed{seed}-{digest[:12]}")


def mark(store: Path) -> str:
    """A store's own mark, by which a process on another machine knows it again."""
    path = store / ".mark"
    with explained(path):
        store.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            with _replacing(path) as file:
                file.write(uuid.uuid4().hex.encode())
        return path.read_text()


def is_marked(store: Path, text: str) -> bool:
    """Whether this is the store with that mark, and not another at the same path."""
    path = store / ".mark"
    return path.exists() and path.read_text() == text


def runs(store: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every run in a store with its manifest, finished or not."""
    for path in sorted(store.glob("*/manifest.json")):
        yield path.parent, json.loads(path.read_text())


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals into an error that names the cure."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}; free some space or "
            "choose another --store, then give the same command: the run goes on from "
            "its last checkpoint"
        ) from error


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Write a whole file beside its place, then move it there."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with explained(path):
        try:
            with partial.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def _synchronise(path: Path) -> None:
    if path.exists():
        with explained(path), path.open("rb") as file:
            os.fsync(file.fileno())


def _ends_with_newline(file: BinaryIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _from_json(value: Any) -> Any:
    return float("nan") if value is None else value


def _without_nan(value: Any) -> Any:
    """As JSON can hold it: null for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {key: _without_nan(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_without_nan(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
