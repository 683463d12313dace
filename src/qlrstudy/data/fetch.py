"""Downloads: each file once, checked, resumed where it broke off, one at a time."""

import shutil
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pooch
from filelock import FileLock

from qlrstudy.data.errors import DataError
from qlrstudy.data.files import matches
from qlrstudy.data.registry import DataFile, DataSet, Published

_NOT_THAT_RANGE = 416


class _Limited:
    """A stream of no more bytes than were published: one without end fills no disk."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self.stream, self.size = stream, size

    def write(self, content: bytes) -> int:
        if self.stream.tell() + len(content) > self.size:
            raise ValueError(f"it is larger than the published {self.size:,} bytes")
        return self.stream.write(content)

    def flush(self) -> None:
        self.stream.flush()


def fetch(data_set: DataSet, root: Path, *, progress: bool = False) -> tuple[Path, ...]:
    """Bring the published files of a set below the data directory `root`.

    Files that are there and have the published checksum stay; others are replaced. A
    file appears under its name only when it is whole and right, and a lock keeps
    several processes from fetching the same set at once.

    Args:
        data_set: from the registry.
        root: the data directory; made if need be.
        progress: whether to draw a bar on standard error.

    Returns:
        The files that were new.

    Raises:
        DataError: for a download that fails or is not what was published.
    """
    folder = root / data_set.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            wanted = [
                file
                for file in data_set.files
                if not matches(folder / file.path, file.checksum)
            ]
            for file in wanted:
                if file.url is not None:
                    source = Published(file.url, file.checksum, file.size)
                    _download(source, folder / file.path, progress)
            members = [file for file in wanted if file.url is None]
            if members and data_set.archive is not None:
                _unpack(data_set.archive, members, folder, progress)
            return tuple(folder / file.path for file in wanted)
    except OSError as error:
        raise DataError(
            f"{folder}: {error}: is there room, and leave to write? "
            "Another directory may be given by --data-dir"
        ) from error


def _download(source: Published, path: Path, progress: bool) -> None:
    rest = path.with_name(f"{path.name}.part")
    if rest.is_symlink():  # not ours, and not to be written through
        rest.unlink()
    got = rest.stat().st_size if rest.exists() else 0

    def resume(url: str, output_file: str, caller: pooch.Pooch | None) -> None:
        # Compressed on the way, bytes of the file could not be counted from.
        headers = {"Accept-Encoding": "identity"}
        if got:
            headers["Range"] = f"bytes={got}-"
        get = pooch.HTTPDownloader(progressbar=progress, headers=headers)
        with rest.open("ab") as stream:
            get(url, _Limited(stream, source.size), caller)
        rest.replace(output_file)

    try:
        pooch.retrieve(
            source.url,
            source.checksum,
            path.name,
            path.parent,
            downloader=resume,  # pyright: ignore[reportArgumentType] - names only
        )
    except (OSError, ValueError) as error:
        # A connection that broke, or a server that is busy, leaves a part to go on
        # from. A range that is not there, or a wrong checksum, can be the fault of a
        # part that does not fit: then begin anew.
        response = getattr(error, "response", None)
        status = None if response is None else response.status_code
        if isinstance(error, ValueError) or status == _NOT_THAT_RANGE:
            rest.unlink(missing_ok=True)
            if got:
                return _download(source, path, progress)
        raise DataError(
            f"{path}: downloading {source.url} failed ({error}): try again, or put the "
            "file there by hand"
        ) from error


def _unpack(
    archive: Published, members: Sequence[DataFile], folder: Path, progress: bool
) -> None:
    """Download an archive, take the wanted files out of it, and remove it."""
    path = folder / archive.url.rsplit("/", 1)[-1]
    _download(archive, path, progress)
    extract(path, members, folder)
    path.unlink()


def extract(path: Path, members: Sequence[DataFile], folder: Path) -> None:
    """Take regular files out of a tar file, each under a name that is known before.

    Args:
        path: of the archive.
        members: whose paths are names in the archive, and below `folder`.
        folder: to put them in.

    Raises:
        DataError: for an archive that would write elsewhere, or is not as expected.
    """
    try:
        with tarfile.open(path) as archive:
            for info in archive:
                # Raises for paths and links that lead out of the folder, devices etc.
                tarfile.data_filter(info, str(folder))
            for file in members:
                source = archive.extractfile(file.path)
                if source is None:
                    raise DataError(f"{path}: member {file.path} is no file")
                if archive.getmember(file.path).size != file.size:
                    raise DataError(f"{path}: member {file.path} is not as published")
                target = folder / file.path
                fresh = target.with_name(f"{target.name}.part")
                fresh.parent.mkdir(parents=True, exist_ok=True)
                fresh.unlink(missing_ok=True)  # a link would be written through
                with source, fresh.open("xb") as stream:
                    shutil.copyfileobj(source, stream)
                if not matches(fresh, file.checksum):
                    fresh.unlink()
                    raise DataError(f"{path}: member {file.path} is not as published")
                fresh.replace(target)
    except (tarfile.TarError, KeyError, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: it is not the published archive ({error}): delete it and fetch "
            "it again"
        ) from error
