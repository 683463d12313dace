"""A store's results as one small file: what a repository keeps and a report reads.

The file is a Parquet table with the columns `path` and `text`: the manifest and some of
the evaluations of each run that ended, the studies' books, and what each tuning
searched, decided and found. Trials and single steps are left out. Unpacked, it is a
store.
"""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from qlrstudy.store.runs import explained, runs
from qlrstudy.tuning import space as tunings

POINTS = 51  # evaluations of a run: all, but of paths that are drawn
_DIGITS = 6
_BOOKS = ("studies/*.json", *[f"{tunings.FOLDER}/*/{n}" for n in ("*.json", "*.jsonl")])


def pack(store: Path, file: Path) -> int:
    """Write a store's results to a file.

    Returns:
        How many runs are in it.

    Raises:
        ValueError: no run of the store has ended.
        StoreError: the file cannot be written.
    """
    found = dict(_runs(store))
    if not found:
        raise ValueError(f"STORE must hold runs that have ended, got {store}")
    books = {
        path.relative_to(store).as_posix(): path.read_text()
        for pattern in _BOOKS
        for path in sorted(store.glob(pattern))
    }
    texts = found | books
    table = pa.table({"path": list(texts), "text": list(texts.values())})
    with explained(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file, compression="zstd", compression_level=19)
    return len(found) // 2


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
        if path.exists():
            continue
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        new += 1
    return new


def _runs(store: Path) -> Iterator[tuple[str, str]]:
    """Two files for each run: its manifest, and its evaluations thinned out."""
    for path, manifest in runs(store):
        if manifest["status"] not in ("finished", "diverged"):
            continue
        lines = (path / "records.jsonl").read_text().splitlines()
        places = np.linspace(0, len(lines) - 1, min(len(lines), POINTS))
        kept = [json.loads(lines[i]) for i in np.unique(places.round().astype(int))]
        short = [json.dumps({k: _rounded(v) for k, v in r.items()}) for r in kept]
        yield f"{path.name}/manifest.json", json.dumps(manifest)
        yield f"{path.name}/records.jsonl", "\n".join(short) + "\n"


def _rounded(value: Any) -> Any:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


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
