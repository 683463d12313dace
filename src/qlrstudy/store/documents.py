"""JSON as the store writes it: of a schema, with a checksum, or refused by name.

A checksum is of a document's values, so that another layout of them is no damage; it
tells what was changed by accident, not who did it. What was written before there were
any has none and is taken as it is.
"""

import json
import zlib
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from qlrstudy.store import files
from qlrstudy.store.files import DamagedError, NewerError

SCHEMA = 1
T = TypeVar("T")


class Lines(NamedTuple, Generic[T]):
    """The lines of a file that can be read, and what is wrong with the others."""

    values: list[T]
    damage: list[DamagedError]


def sealed(value: Any) -> bytes:
    """A value as one line, with its checksum; numbers that are not finite are null."""
    content = msgspec.json.decode(msgspec.json.encode(value))
    return msgspec.json.encode(content | {"checksum": _checksum(content)}) + b"\n"


def write_json(path: Path, value: Any) -> None:
    """Replace a file by a value."""
    with files.replacing(path) as file:
        file.write(msgspec.json.format(sealed(value), indent=2) + b"\n")


def read_json(path: Path, kind: type[T]) -> T | None:
    """A file's value, or `None` if there is no such file.

    Raises:
        DamagedError: it cannot be read, or holds something else.
        NewerError: it is of a later version.
    """
    content = files.content(path)
    return None if content is None else _decoded(path, content, kind)


def append_line(path: Path, value: Any) -> None:
    """Add a value as a line, in place of one that was cut short, if any."""
    files.append_line(path, sealed(value))


def read_lines(path: Path, kind: type[T]) -> Lines[T]:
    """The values that were appended; none if there is no such file.

    A last line without an end was cut short by a kill or a full disk: it was never
    written. Any other that is no `kind` is damage.
    """
    whole = (files.content(path) or b"").split(b"\n")[:-1]
    found = Lines[T]([], [])
    for number, line in enumerate(whole, 1):
        try:
            found.values.append(_decoded(path, line, kind))
        except DamagedError as error:
            problem = f"line {number}: {error.problem}"
            found.damage.append(DamagedError(path, problem))
    return found


def _decoded(path: Path, content: bytes, kind: type[T]) -> T:
    checksum = None
    try:
        found = msgspec.json.decode(content)
        if isinstance(found, dict):
            _refuse_later(path, found.get("schema"))
            checksum = found.pop("checksum", None)
        value = msgspec.convert(found, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise DamagedError(path, f"is damaged ({error})") from error
    if checksum is not None and checksum != _checksum(found):
        raise DamagedError(path, "is damaged (it was changed since it was written)")
    return value


def _refuse_later(path: Path, schema: Any) -> None:
    if isinstance(schema, int) and schema > SCHEMA:
        raise NewerError(
            path,
            f"its schema is {schema}, and this version of qlrstudy reads {SCHEMA}; "
            "install a later one",
        )


def _checksum(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}"
