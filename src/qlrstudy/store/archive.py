"""A store's results as one small file: what a repository keeps and a report reads.

The file is a Parquet table with the columns `path` and `text`: of each run that ended
the manifest, some of its evaluations, some of its steps (their step sizes and dampings
are drawn) and the path of its parameters where it has one; the studies' lists, and what
each tuning searched, decided and found. Trials are left out. Unpacked, it is a store.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from qlrstudy.spec import Record
from qlrstudy.store import files, studies, tunings
from qlrstudy.store.files import DamagedError, UnreadableError
from qlrstudy.store.runs import RunDirectory, read_runs

POINTS = 51  # evaluations of a run: all, but of paths that are drawn
STEPS = 101  # of a run, if it has so many
_DIGITS = 6
_STEP_DIGITS = 4
_LISTS = (
    f"{studies.FOLDER}/*.json",
    *(f"{tunings.FOLDER}/*/{name}" for name in ("*.json", "*.jsonl")),
)


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
    for path, manifest in ended.items():
        directory = RunDirectory(path)
        records, damage = directory.read_records()
        runs.damage.extend(damage)
        lines = {
            "manifest.json": [manifest],
            "records.jsonl": _thinned(records),
            "steps.jsonl": _steps(directory, runs.damage),
            "positions.jsonl": _positions(directory, records),
        }
        for name, own in lines.items():
            if text := "".join(map(_line, own)):
                texts[f"{path.name}/{name}"] = text
    texts |= {
        path.relative_to(store).as_posix(): path.read_text()
        for pattern in _LISTS
        for path in sorted(store.glob(pattern))
    }
    table = pa.table({"path": list(texts), "text": list(texts.values())})
    with files.replacing(file) as stream:
        pq.write_table(table, stream, compression="zstd", compression_level=19)
    return Packed(len(ended), runs.damage)


def unpack(file: Path, store: Path) -> int:
    """Make a store of a file; what is there already stays as it is.

    Returns:
        How many files are new.

    Raises:
        ValueError: the file is none of ours.
        StoreError: the store cannot be written.
    """
    new = 0
    for name, text in _texts(file):
        path = store / name
        if not path.exists():
            with files.replacing(path, durable=False) as stream:
                stream.write(text.encode())
            new += 1
    return new


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
    directory: RunDirectory, damage: list[UnreadableError]
) -> Iterator[dict[str, float]]:
    """Some of a run's steps, rounded: what a figure of step sizes needs."""
    try:
        numbers, report = directory.some_steps(STEPS)
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        said = f"cannot be read ({error})"
        damage.append(DamagedError(directory.path / "steps.parquet", said))
        return
    for place, number in enumerate(numbers):
        row = {name: float(column[place]) for name, column in report._asdict().items()}
        del row["accuracy"]  # no step keeps it
        rounded = {name: _rounded(value, _STEP_DIGITS) for name, value in row.items()}
        yield {"step": int(number)} | rounded


def _positions(
    directory: RunDirectory, records: Sequence[Record]
) -> Iterator[dict[str, Any]]:
    """The whole path of the parameters, rounded."""
    places = directory.positions()
    for record, params in zip(records, places, strict=False):
        rounded = [_rounded(value, _DIGITS) for value in params]
        yield {"step": record.step, "params": rounded}


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def _texts(file: Path) -> list[tuple[str, str]]:
    try:
        table = pq.read_table(file, columns=["path", "text"])
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise ValueError(
            f"FILE {file}: {error}; give one that `qlrstudy pack` wrote"
        ) from error
    rows = list(zip(*(table[n].to_pylist() for n in ("path", "text")), strict=True))
    for name, _ in rows:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name:
            raise ValueError(f"FILE {file}: {name!r} would lie outside of the store")
    return rows
