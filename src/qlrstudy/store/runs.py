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

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from qlrstudy.spec import Record
from qlrstudy.store import checkpoints, documents, files
from qlrstudy.store.checkpoints import Checkpoint
from qlrstudy.store.files import DamagedError, UnreadableError
from qlrstudy.store.history import STEP_FIELDS, History, number
from qlrstudy.store.manifest import Identity, Manifest, Number, Status, digest

if TYPE_CHECKING:
    import pyarrow as pa

# What only grows; a run is taken up again with as much of each as at its checkpoint.
_GROWING = ("records.jsonl", "positions.jsonl", "steps.f32")
# What stays of a run that has ended, and is read again.
_KEPT = ("records.jsonl", "positions.jsonl", "steps.parquet", "steps.jsonl")
_CLOSE = 1e-4  # archives round


class Ended(NamedTuple):
    """A run of which nothing more will come, and its last evaluation."""

    manifest: Manifest
    record: Record


class RunDirectory(History):
    """One run's place in a store.

    Args:
        path: its directory, there or yet to be made.
    """

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

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint, once all that came before it is on the disk."""
        for name in _GROWING:
            files.synchronise(self.path / name)
        extents = [files.extent(self.path / name) for name in _GROWING]
        checkpoints.write(self.path / "checkpoint.npz", checkpoint, extents)

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
        checkpoint, extents = checkpoints.read(path)
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
        import pyarrow as pa

        rows = pa.Table.from_pylist([record._asdict() for record in self.records()])
        self._write_table("evaluations.parquet", rows)
        steps = self.steps()
        columns = {name: getattr(steps, name) for name in STEP_FIELDS}
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
        import pyarrow.parquet as pq

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


def _checksum(path: Path) -> str:
    return f"{files.extent(path).checksum:08x}"


def _agree(one: Mapping[str, Number | None], other: Mapping[str, Number]) -> bool:
    """Whether two evaluations are the same but for an archive's rounding."""
    pairs = [(number(value), other[name]) for name, value in one.items()]
    return all(
        math.isclose(a, b, rel_tol=_CLOSE) or not (math.isfinite(a) or math.isfinite(b))
        for a, b in pairs
    )
