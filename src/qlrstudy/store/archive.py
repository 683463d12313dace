"""A store's results as one small file: what a repository keeps and a report reads.

The file is a Parquet table with the columns `path` and `text`: of each run that ended
the manifest, some of its evaluations, some of its steps (their step sizes and dampings
are drawn) and the path of its parameters where it has one; the studies' lists, and what
each tuning searched, decided and found. Trials are left out. Unpacked, it is a store.
"""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from qlrstudy.spec import Record
from qlrstudy.store import documents, files, studies, tunings
from qlrstudy.store.files import UnreadableError
from qlrstudy.store.manifest import Manifest
from qlrstudy.store.runs import RunDirectory, read_runs

POINTS = 51  # evaluations of a run: all, but of paths that are drawn
STEPS = 101  # of a run, if it has so many
_DIGITS = 6
_STEP_DIGITS = 4


class Packed(NamedTuple):
    """How many runs are in a file, and what of the store could not be read."""

    runs: int
    damage: list[UnreadableError]


def pack(store: Path, file: Path) -> Packed:
    """Write a store's results to a file.

    Raises:
        ValueError: no run of the store has ended.
        StoreError: the file cannot be written.
    """
    runs = read_runs(store)
    ended = {p: m for p, m in runs.manifests.items() if m.status.is_final}
    if not ended:
        raise ValueError(f"STORE must hold runs that have ended, got {store}")
    texts: dict[str, str] = {}
    packed = 0
    for path, manifest in ended.items():
        try:
            texts |= _run(RunDirectory(path), manifest, runs.damage)
            packed += 1
        except UnreadableError as error:
            runs.damage.append(error)
    texts |= _lists(store, runs.damage)
    table = pa.table({"path": list(texts), "text": list(texts.values())})
    with files.replacing(file) as stream:
        pq.write_table(
            table,
            stream,
            compression="zstd",
            compression_level=19,
            write_page_checksum=True,
        )
    return Packed(packed, runs.damage)


def _run(
    directory: RunDirectory, manifest: Manifest, damage: list[UnreadableError]
) -> dict[str, str]:
    """A run's files, thinned out; its manifest is of these."""
    directory.ended()  # raises, if it is not as it was written
    lines = {
        "records.jsonl": _thinned(directory.records()),
        "steps.jsonl": _steps(directory, manifest, damage),
        "positions.jsonl": _positions(directory, manifest, damage),
    }
    texts = {name: "".join(map(_line, own)) for name, own in lines.items()}
    texts = {name: text for name, text in texts.items() if text}
    sums = {name: f"{zlib.crc32(text.encode()):08x}" for name, text in texts.items()}
    own = msgspec.structs.replace(manifest, checksums=sums)
    texts["manifest.json"] = documents.sealed(own).decode()
    return {f"{directory.path.name}/{name}": text for name, text in texts.items()}


def _lists(store: Path, damage: list[UnreadableError]) -> dict[str, str]:
    """The studies' lists and the tunings, as far as they can be read."""
    found, unread = studies.read_studies(store)
    damage.extend(unread)
    texts = {path: documents.sealed(listed) for path, listed in found.items()}
    for directory in tunings.tuning_directories(store):
        for name, read in (
            ("log.jsonl", directory.log),
            ("tuning.json", directory.identity),
            ("best.json", directory.best),
        ):
            try:
                value = read()
            except UnreadableError as error:
                damage.append(error)
                continue
            if isinstance(value, documents.Lines):
                damage.extend(value.damage)
                lines = map(documents.sealed, value.values)
                texts[directory.path / name] = b"".join(lines)
            elif value is not None:
                texts[directory.path / name] = documents.sealed(value)
    return {
        path.relative_to(store).as_posix(): text.decode()
        for path, text in texts.items()
        if text
    }


def _line(value: Any) -> str:
    return msgspec.json.encode(value).decode() + "\n"


def _thinned(records: Sequence[Record]) -> Iterator[dict[str, float]]:
    """Some of a run's evaluations, the first and the last among them, rounded."""
    places = np.linspace(0, len(records) - 1, min(len(records), POINTS))
    for place in np.unique(places.round().astype(int)):
        yield {
            name: _rounded(value, _DIGITS) if isinstance(value, float) else value
            for name, value in records[place]._asdict().items()
        }


def _steps(
    directory: RunDirectory, manifest: Manifest, damage: list[UnreadableError]
) -> Iterator[dict[str, float]]:
    """Some of a run's steps, rounded: what a figure of step sizes needs."""
    try:
        directory.compare(manifest, "steps.parquet")
        numbers, report = directory.some_steps(STEPS)
    except UnreadableError as error:
        damage.append(error)
        return
    for place, number in enumerate(numbers):
        row = {name: float(column[place]) for name, column in report._asdict().items()}
        del row["accuracy"]  # no step keeps it
        rounded = {name: _rounded(value, _STEP_DIGITS) for name, value in row.items()}
        yield {"step": int(number)} | rounded


def _positions(
    directory: RunDirectory, manifest: Manifest, damage: list[UnreadableError]
) -> Iterator[dict[str, Any]]:
    """The whole path of the parameters, rounded."""
    try:
        directory.compare(manifest, "positions.jsonl")
        places = directory.positions()
    except UnreadableError as error:
        damage.append(error)
        return
    for step, params in places:
        rounded = [_rounded(value, _DIGITS) for value in params]
        yield {"step": step, "params": rounded}


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
