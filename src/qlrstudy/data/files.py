"""Files on disk: what state they are in, and reading a whole set of them.

One function, `examine`, judges a file; whether the judgement stops a run (`read`) or
is shown (`verify`) is decided by its callers.
"""

import hashlib
from pathlib import Path
from typing import Any, Literal, NamedTuple

from qlrstudy.data.errors import DataError
from qlrstudy.data.registry import DataFile, DataSet
from qlrstudy.spec import SourceFile

State = Literal["complete", "partial", "missing", "damaged"]


class Examined(NamedTuple):
    """A file's state.

    Attributes:
        file: the registry's entry.
        path: on this machine.
        state: `complete` is the published file, byte for byte; `partial` is one that
            can be read and has fewer examples; all else is `missing` or `damaged`.
        problem: a predicate, such as `is missing`; empty for a complete file.
        source: its sha256, size and count, for a file that could be read.
        content: what the set's reader made of it, likewise.
    """

    file: DataFile
    path: Path
    state: State
    problem: str = ""
    source: SourceFile | None = None
    content: Any = None


class Reading(NamedTuple):
    """A set's files, read.

    Attributes:
        contents: by the file's path in the registry; a partial set may lack some.
        sources: what was read.
        incomplete: what a partial set lacks, in words; `None` for a complete one.
    """

    contents: dict[str, Any]
    sources: tuple[SourceFile, ...]
    incomplete: str | None


def examine(data_set: DataSet, file: DataFile, root: Path) -> Examined:
    """Judge one file below the data directory `root`, and read it if it can be."""
    path = root / data_set.folder / file.path
    if not path.is_file():
        return Examined(file, path, "missing", "is missing")
    try:
        sha256 = digest(path, "sha256")
        content = data_set.read(path)
    # Parsers of broken bytes fail in ways of their own (zlib, struct, scipy); what the
    # user needs is the same for all.
    except Exception as error:
        problem = f"cannot be read ({error or type(error).__name__})"
        return Examined(file, path, "damaged", problem)
    # A tuple holds several arrays of the same examples.
    count = len(content[0] if isinstance(content, tuple) else content)
    name = f"{data_set.folder}/{file.path}"
    source = SourceFile(name, sha256, path.stat().st_size, count)
    if file.checksum == f"sha256:{sha256}" or matches(path, file.checksum):
        return Examined(file, path, "complete", "", source, content)
    if count < file.examples:
        problem = f"has {count:,} of {file.examples:,} published examples"
        return Examined(file, path, "partial", problem, source, content)
    problem = f"is not the published file, whose checksum is {file.checksum}"
    return Examined(file, path, "damaged", problem, source)


def read(data_set: DataSet, root: Path, *, partial: bool = False) -> Reading:
    """Read all files of a set.

    Args:
        data_set: from the registry.
        root: the data directory.
        partial: whether files with fewer examples than published will do, and sets
            without those that the registry calls optional.

    Raises:
        DataError: for a file that is missing or damaged, or partial without leave.
    """
    contents, sources, lacks = {}, [], []
    for file in data_set.files:
        found = examine(data_set, file, root)
        lacking = found.state == "partial" or (
            found.state == "missing" and file.optional
        )
        if found.state != "complete" and not (lacking and partial):
            raise DataError(_explain(data_set, found, root, lacking))
        if found.state != "complete":
            lacks.append(f"{found.path.name} {found.problem}")
        if found.source is not None:
            contents[file.path] = found.content
            sources.append(found.source)
    return Reading(contents, tuple(sources), "; ".join(lacks) or None)


def digest(path: Path, algorithm: str) -> str:
    """Hexadecimal digest of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def matches(path: Path, checksum: str) -> bool:
    """Whether a file is there and has a checksum in pooch's notation."""
    algorithm, expected = checksum.split(":")
    return path.is_file() and digest(path, algorithm) == expected


def _explain(data_set: DataSet, found: Examined, root: Path, lacking: bool) -> str:
    fetch = f"qlrstudy data fetch {data_set.name} --data-dir {root}"
    cure = f"get the published one with `{fetch}`"
    if lacking:
        cure += ", or go on with what is there with --partial-data"
    return f"{found.path} {found.problem}: {cure}"
