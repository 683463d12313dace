"""How the store touches the disk: replace, append, read and lock, each once.

Whole files are written beside their place and renamed into it, which network disks do
atomically too. Of a file that grows by lines, a line counts once its end is there. The
lock is the operating system's: it ends with the process that held it, however that
ended. What cannot be read is an error that names its file.
"""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar

import filelock
import msgspec

T = TypeVar("T")


class StoreError(Exception):
    """A store that cannot be used: where, why, and the cure."""


class BusyError(StoreError):
    """Something that another process is writing."""


class UnreadableError(StoreError):
    """A file without which the others must do.

    Args:
        path: of the file.
        problem: what is wrong with it.
    """

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path, self.problem = path, problem


class DamagedError(UnreadableError):
    """A file that is not what was written; it may be written anew."""


class NewerError(UnreadableError):
    """A file of a later version of this program, to be left as it is."""


class Lines(NamedTuple, Generic[T]):
    """The lines of a file that can be read, and what is wrong with the others."""

    values: list[T]
    damage: list[DamagedError]


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
def replacing(path: Path, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Write a whole file beside its place, then move it there: all or nothing.

    Args:
        path: its place.
        durable: whether to wait for the disk first, some milliseconds a file, so that
            a power cut does not take it; not for what can be had again.
    """
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("xb") as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Replace a file by a value; numbers that are not finite become null."""
    with replacing(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def read_json(path: Path, kind: type[T]) -> T | None:
    """A file's value, or `None` if there is no such file.

    Raises:
        DamagedError: it cannot be read, or holds something else.
    """
    content = _content(path)
    return None if content is None else _decoded(path, content, kind)


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file."""
    with explained(path), path.open("ab") as file:
        file.write(content)


def append_line(path: Path, value: Any) -> None:
    """Add a value as a line of JSON, in place of one that was cut short, if any."""
    line = msgspec.json.encode(value) + b"\n"
    with explained(path), path.open("ab+") as file:
        if file.tell() and not _ends_with_newline(file):
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line)


def read_lines(path: Path, kind: type[T]) -> Lines[T]:
    """The values that were appended; none if there is no such file.

    A last line without an end was cut short by a kill or a full disk: it was never
    written. Any other that is no `kind` is damage.
    """
    whole = (_content(path) or b"").split(b"\n")[:-1]
    found = Lines[T]([], [])
    for number, line in enumerate(whole, 1):
        try:
            found.values.append(_decoded(path, line, kind))
        except DamagedError as error:
            problem = f"line {number}: {error.problem}"
            found.damage.append(DamagedError(path, problem))
    return found


def synchronise(path: Path) -> None:
    """Wait until what was appended is on the disk."""
    if path.exists():
        with explained(path), path.open("rb") as file:
            os.fsync(file.fileno())


@contextlib.contextmanager
def locked(path: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Keep other processes out while this one writes.

    Args:
        path: of the lock, a file of its own.
        wait: for another process to finish, in seconds.

    Raises:
        BusyError: another process is writing.
        StoreError: nothing can be written here.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path)
        try:
            lock.acquire(timeout=wait)
        except filelock.Timeout:
            raise BusyError(
                f"another process is writing {path.parent}; wait for it, or choose "
                "another --seed or --store"
            ) from None
    try:
        yield
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether some process holds a lock at this moment."""
    if not path.exists():
        return False
    try:
        with locked(path):
            return False
    except BusyError:
        return True


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedError(path, f"cannot be read ({error.strerror})") from error


def _decoded(path: Path, content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise DamagedError(path, f"is damaged ({error})") from error


def _ends_with_newline(file: BinaryIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"
