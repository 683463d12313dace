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

import pyarrow as pa
import pyarrow.parquet as pq

from qlrstudy.store import files, studies, tunings

MOST_BYTES = 2**30  # of text; a thousand runs have some ten million
_BATCH = 64  # rows that are read at a time
_WAIT_SECONDS = 60.0  # for another process that unpacks
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
    with files.locked(store / ".unpack.lock", wait=_WAIT_SECONDS):
        # What is there is asked for only now: another process may have unpacked it.
        new = {n: text for n, text in texts.items() if not os.path.lexists(store / n)}
        lists = {n: text for n, text in texts.items() if _is_list(store, n)}
        for left in store.glob(".unpacking-*"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        beside = store / f".unpacking-{uuid.uuid4().hex}"
        try:
            for name, text in (new | lists).items():
                with files.replacing(beside / name, durable=False) as stream:
                    stream.write(text.encode())
            for name in lists.keys() - new.keys():
                _refuse_unreadable(file, beside / name, store / name)
            runs = new.keys() - lists.keys()
            _move(beside, store, runs)
            longer = [studies.merge(store / name, beside / name) for name in lists]
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    return len(runs) + sum(longer)


def _is_list(store: Path, name: str) -> bool:
    path = store / name
    return name.startswith(f"{studies.FOLDER}/") and not path.is_symlink()


def _refuse_unreadable(file: Path, source: Path, place: Path) -> None:
    """Before any is moved: lists that are to be merged must be lists."""
    try:
        studies.read_study(source)
    except files.UnreadableError as error:
        name = f"{studies.FOLDER}/{source.name}"
        raise ValueError(f"FILE {file}: {name} {error.problem}") from error
    studies.read_study(place)


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
