"""How the store touches the disk: replace, append, cut, read and lock, each once.

Whole files are written beside their place and renamed into it, which network disks do
atomically too. Of a file that grows by lines, a line counts once its end is there. The
lock is the operating system's: it ends with the process that held it, however that
ended. What cannot be read is an error that names its file.
"""

import contextlib
import fcntl
import os
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

# Who looks whether a lock is held has it for a moment, which nobody must mistake for
# a writer.
_LOOK_SECONDS = 1.0

# What readers of others' formats raise for bytes that are not what they were.
BROKEN = (OSError, ValueError, KeyError, TypeError, EOFError, SyntaxError)
BROKEN += (IndexError, OverflowError, MemoryError, NotImplementedError, RuntimeError)


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


class Extent(NamedTuple):
    """How much of a file counts: its first bytes, and their checksum."""

    size: int
    checksum: int


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals into an error that names the cure."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror or error}; free some space or "
            "choose another place (of runs, --store), then give the same command: it "
            "goes on from what is stored"
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
            if durable:
                _synchronise_name(path)
        finally:
            partial.unlink(missing_ok=True)


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file."""
    with explained(path), path.open("ab") as file:
        file.write(content)


def append_line(path: Path, line: bytes) -> None:
    """Add a line, in place of one that was cut short, if any."""
    with explained(path), path.open("ab+") as file:
        if file.tell() and not _ends_with_newline(file):
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line)


def extent(path: Path) -> Extent:
    """Of a file as it is; of none if there is no such file."""
    found = content(path) or b""
    return Extent(len(found), zlib.crc32(found))


def cut_back(path: Path, known: Extent) -> None:
    """Drop what was appended after a file had some extent.

    Raises:
        DamagedError: it is not what it was then.
    """
    found = content(path) or b""
    if len(found) < known.size:
        problem = f"has {len(found)} of the {known.size} bytes that it had"
        raise DamagedError(path, f"is damaged ({problem})")
    if zlib.crc32(found[: known.size]) != known.checksum:
        raise DamagedError(path, "is damaged (it was changed since it was written)")
    if len(found) > known.size:
        with explained(path):
            os.truncate(path, known.size)


def synchronise(path: Path) -> None:
    """Wait until what was appended is on the disk."""
    if path.exists():
        with explained(path), path.open("rb") as file:
            os.fsync(file.fileno())
            _synchronise_name(path)


@contextlib.contextmanager
def locked(path: Path, *, wait: float = _LOOK_SECONDS) -> Iterator[None]:
    """Keep other processes out while this one writes.

    Args:
        path: of the lock, a file of its own.
        wait: for another process to finish, in seconds.

    Raises:
        BusyError: another process is writing.
        StoreError: nothing can be written here.
    """
    # Loaded here: those who only read, as `qlrstudy status`, answer sooner without.
    import filelock

    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path)
        try:
            lock.acquire(timeout=wait)
        except filelock.Timeout:
            raise BusyError(
                f"another process is writing {path.parent}; wait for it, or choose "
                "another place (of runs, --seed or --store)"
            ) from None
    try:
        yield
    finally:
        lock.release()


def is_locked(path: Path) -> bool:
    """Whether some process holds a lock at this moment; also where nobody may write."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is none, or it cannot be locked
        return False
    return False


def content(path: Path) -> bytes | None:
    """All of a file, or `None` if there is no such file.

    Raises:
        DamagedError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedError(path, f"cannot be read ({error.strerror})") from error


def _synchronise_name(path: Path) -> None:
    """Wait until a file that is new, or was replaced, is on the disk by its name."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _ends_with_newline(file: BinaryIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"
