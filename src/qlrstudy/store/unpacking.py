"""A store out of a file that may come from anywhere; `archive` says what is in it.

Only names that a store has are written, no symbolic link is followed, and no more is
read than a store of any size needs.
"""

import os
import re
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from qlrstudy.store import files, studies, tunings
from qlrstudy.store.studies import StudyEntry

MOST_BYTES = 2**30  # of text; a thousand runs have some ten million
_BATCH = 64  # rows that are read at a time
_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}"
_RUN = r"(manifest\.json|records\.jsonl|steps\.jsonl|positions\.jsonl)"
_TUNING = r"(tuning\.json|log\.jsonl|best\.json)"
_PLACES = re.compile(
    rf"{_NAME}/{_RUN}|{studies.FOLDER}/{_NAME}\.json"
    rf"|{tunings.FOLDER}/{_NAME}/{_TUNING}"
)


def unpack(file: Path, store: Path) -> int:
    """Make a store of a file; what is there already stays as it is.

    All of it is checked, and then written beside its place, before any is moved there,
    a whole run at a time. Last of all, a study's list that was there gets the entries
    that it lacks.

    Returns:
        How many files are new, or lists of a study longer.

    Raises:
        ValueError: the file is none of ours, or would write elsewhere.
        StoreError: the store cannot be written, or a list in it cannot be read.
    """
    texts = _texts(file)
    _refuse_links(file, store, texts)
    new = {n: text for n, text in texts.items() if not os.path.lexists(store / n)}
    lists = {n: texts[n] for n in texts if n not in new and _is_list(store, n)}
    with files.locked(store / ".unpack.lock"):
        for left in store.glob(".unpacking-*"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        beside = store / f".unpacking-{uuid.uuid4().hex}"
        try:
            for name, text in (new | lists).items():
                with files.replacing(beside / name, durable=False) as stream:
                    stream.write(text.encode())
            longer = [_addition(file, beside / n, store / n) for n in lists]
            longer = [known for known in longer if known.entries]
            _move(beside, store, new)
            for known in longer:
                studies.enter(*known)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    return len(new) + len(longer)


class _Addition(NamedTuple):
    """What a study's list lacks; see `studies.enter`."""

    path: Path
    name: str
    title: str
    entries: list[StudyEntry]


def _is_list(store: Path, name: str) -> bool:
    path = store / name
    return name.startswith(f"{studies.FOLDER}/") and not path.is_symlink()


def _addition(file: Path, source: Path, place: Path) -> _Addition:
    """What another list of the same study has that is not in the store's."""
    try:
        new = studies.read_study(source)
    except files.UnreadableError as error:
        name = f"{studies.FOLDER}/{source.name}"
        raise ValueError(f"FILE {file}: {name} {error.problem}") from error
    known = studies.read_study(place)
    assert new is not None and known is not None
    have = {entry.key for entry in known.entries}
    lacking = [entry for entry in new.entries if entry.key not in have]
    return _Addition(place, known.name, known.title, lacking)


def _move(beside: Path, store: Path, names: Iterable[str]) -> None:
    """Folders that are new as a whole; into others file by file, a manifest last."""
    for name in sorted(names, key=lambda name: name.endswith("manifest.json")):
        source, place = beside / name, store / name
        with files.explained(place):
            if not source.exists():  # it came with its folder
                continue
            if place.parent.exists():
                source.replace(place)
            else:
                place.parent.parent.mkdir(parents=True, exist_ok=True)
                source.parent.replace(place.parent)


def _refuse_links(file: Path, store: Path, names: Iterable[str]) -> None:
    folders = {parent for name in names for parent in Path(name).parents}
    for folder in sorted(folders - {Path()}):
        if (store / folder).is_symlink():
            raise ValueError(
                f"FILE {file}: {store / folder} is a symbolic link, which is not "
                "followed; unpack into another directory"
            )


def _texts(file: Path) -> dict[str, str]:
    """What a file holds by name, read no further than it may be believed."""
    texts: dict[str, str] = {}
    size = 0
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as table:
            groups = range(table.metadata.num_row_groups)
            _limit(sum(table.metadata.row_group(g).total_byte_size for g in groups))
            for batch in table.iter_batches(_BATCH, columns=["path", "text"]):
                for name, text in zip(*_columns(batch), strict=True):
                    size += len(text)
                    _limit(size)
                    if not _PLACES.fullmatch(name):
                        raise ValueError(f"{name!r} would lie outside of the store")
                    if name in texts:
                        raise ValueError(f"{name!r} is there twice")
                    texts[name] = text
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise ValueError(
            f"FILE {file}: {error}; give one that `qlrstudy pack` wrote"
        ) from error
    return texts


def _columns(batch: pa.RecordBatch) -> list[list[str]]:
    for name in ("path", "text"):
        column = batch[name]
        if not pa.types.is_string(column.type) or column.null_count:
            raise ValueError(
                f"column {name!r} must hold text, got {column.type} with "
                f"{column.null_count} nulls"
            )
    return [batch[name].to_pylist() for name in ("path", "text")]


def _limit(size: int) -> None:
    if size > MOST_BYTES:
        raise ValueError(f"it holds more than {MOST_BYTES:,} bytes of text")
