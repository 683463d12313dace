"""Where data are kept, and what `qlrstudy data list | fetch | verify` ask of it."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pooch

from qlrstudy.data.fetch import fetch
from qlrstudy.data.files import Examined, Reading, examine, read
from qlrstudy.data.registry import DATA_SETS, DataSet
from qlrstudy.names import lookup
from qlrstudy.spec import DataOptions


class SetStatus(NamedTuple):
    """What is there of a set, by a look at the directory alone.

    Attributes:
        data_set: the registry's entry.
        folder: on this machine.
        present: number of its files that are there.
        size: their bytes.
    """

    data_set: DataSet
    folder: Path
    present: int
    size: int


def data_root(options: DataOptions) -> Path:
    """The data directory: the one given, `QLR_DATA`, or the user's download cache."""
    return _given(options) or Path(pooch.os_cache("qlrstudy"))


def list_sets(options: DataOptions) -> tuple[SetStatus, ...]:
    """All sets, with what is there of each; files are not opened."""
    root = data_root(options)
    return tuple(_status(data_set, root) for data_set in DATA_SETS.values())


def fetch_sets(
    names: Iterable[str],
    options: DataOptions,
    *,
    progress: bool = True,
) -> tuple[Path, ...]:
    """Download sets into the data directory; all of them if none is named.

    Returns:
        The files that were new.
    """
    root = data_root(options)
    return tuple(
        path
        for data_set in _chosen(names)
        for path in fetch(data_set, root, progress=progress)
    )


def verify_sets(names: Iterable[str], options: DataOptions) -> tuple[Examined, ...]:
    """Read each file of the sets (all, if none is named) and judge it."""
    root = data_root(options)
    return tuple(
        examine(data_set, file, root)
        for data_set in _chosen(names)
        for file in data_set.files
    )


def read_set(data_set: DataSet, options: DataOptions) -> Reading:
    """Read a set for a run.

    A directory that was given is only read; into the cache, files that are not there
    are downloaded.
    """
    root = data_root(options)
    if _given(options) is None:
        status = _status(data_set, root)
        if status.present < len(data_set.files):
            fetch(data_set, root, progress=True)
    return read(data_set, root, partial=options.partial)


def _given(options: DataOptions) -> Path | None:
    if options.directory is not None:
        return Path(options.directory)
    variable = os.environ.get("QLR_DATA")
    return Path(variable) if variable else None


def _status(data_set: DataSet, root: Path) -> SetStatus:
    folder = root / data_set.folder
    sizes = [
        path.stat().st_size
        for path in (folder / file.path for file in data_set.files)
        if path.is_file()
    ]
    return SetStatus(data_set, folder, len(sizes), sum(sizes))


def _chosen(names: Iterable[str]) -> list[DataSet]:
    chosen = tuple(names) or tuple(DATA_SETS)
    return [lookup("SET", name, DATA_SETS) for name in chosen]
