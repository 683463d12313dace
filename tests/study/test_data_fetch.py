"""Downloads from a server on this machine, right and wrong; archives, good and bad."""

import gc
import hashlib
import io
import tarfile
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from qlrstudy.data import DataError
from qlrstudy.data.fetch import extract, fetch
from qlrstudy.data.files import read
from qlrstudy.data.formats import read_table
from qlrstudy.data.registry import DataFile, DataSet, Published

CONTENT = b"".join(b"%d %d\n" % (i, i * i) for i in range(2000))


class Server(ThreadingHTTPServer):
    """Serves `files`; may break off after `breaks` bytes, or not know ranges."""

    files: dict[str, bytes]
    breaks: int | None = None
    busy: bool = False
    ranges: bool = True
    requests: list[tuple[str, str | None]]

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:  # noqa: N802 - http.server's name
        asked = self.headers["Range"]
        self.server.requests.append((self.path[1:], asked))
        body = self.server.files.get(self.path[1:])
        if body is None or self.server.busy:
            self.send_error(404 if body is None else 503)
            return
        start = 0
        if asked and self.server.ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start : self.server.breaks])

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.files, server.requests = {"data.txt": CONTENT}, []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    # pooch drops the connection of a failed download; here, and not in a later test.
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()


def _sha256(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _table(server: Server, checksum: str = _sha256(CONTENT)) -> DataSet:
    file = DataFile("data.txt", checksum, len(CONTENT), 2000, server.url("data.txt"))
    return DataSet("table", "table", "none", "nowhere", read_table, (file,))


def test_download_with_the_right_checksum_is_read(server, tmp_path):
    data_set = _table(server)
    assert fetch(data_set, tmp_path) == (tmp_path / "table" / "data.txt",)
    assert read(data_set, tmp_path).sources[0].examples == 2000


def test_what_is_there_is_not_downloaded_again(server, tmp_path):
    data_set = _table(server)
    fetch(data_set, tmp_path)
    assert fetch(data_set, tmp_path) == ()
    assert len(server.requests) == 1


def test_damaged_file_is_replaced(server, tmp_path):
    path = tmp_path / "table" / "data.txt"
    path.parent.mkdir()
    path.write_bytes(CONTENT[:100])
    fetch(_table(server), tmp_path)
    assert path.read_bytes() == CONTENT


def test_download_with_a_wrong_checksum_leaves_nothing(server, tmp_path):
    with pytest.raises(DataError, match=r"data\.txt: downloading http.* failed"):
        fetch(_table(server, _sha256(b"another")), tmp_path)
    assert {path.name for path in (tmp_path / "table").iterdir()} <= {".lock"}


def test_missing_page_names_file_and_address(server, tmp_path):
    server.files.clear()
    with pytest.raises(DataError, match="404") as caught:
        fetch(_table(server), tmp_path)
    assert server.url("data.txt") in str(caught.value)
    assert "data.txt: " in str(caught.value)


def test_no_server_is_an_error_with_a_cure(server, tmp_path):
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match="put the file there by hand"):
        fetch(_table(server), tmp_path)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # pooch drops its connection
def test_broken_download_goes_on_where_it_stopped(server, tmp_path):
    server.breaks = 4096
    with pytest.raises(DataError, match="try again"):
        fetch(_table(server), tmp_path)
    gc.collect()
    assert not (tmp_path / "table" / "data.txt").exists()
    server.breaks = None
    fetch(_table(server), tmp_path)
    assert server.requests[-1] == ("data.txt", "bytes=4096-")
    assert (tmp_path / "table" / "data.txt").read_bytes() == CONTENT


def test_a_busy_server_does_not_cost_what_is_there(server, tmp_path):
    rest = tmp_path / "table" / "data.txt.part"
    rest.parent.mkdir()
    rest.write_bytes(CONTENT[:4096])
    server.busy = True
    with pytest.raises(DataError, match="503.*try again"):
        fetch(_table(server), tmp_path)
    assert rest.read_bytes() == CONTENT[:4096]
    server.busy = False
    fetch(_table(server), tmp_path)
    assert server.requests[-1] == ("data.txt", "bytes=4096-")


def test_no_more_bytes_are_taken_than_were_published(server, tmp_path):
    server.files["data.txt"] = CONTENT + b"x"
    with pytest.raises(DataError, match=f"larger than the published {len(CONTENT):,}"):
        fetch(_table(server), tmp_path)
    assert {path.name for path in (tmp_path / "table").iterdir()} <= {".lock"}


def test_a_link_in_the_place_of_a_part_is_not_followed(server, tmp_path):
    outside, part = tmp_path / "outside", tmp_path / "table" / "data.txt.part"
    outside.write_bytes(b"mine")
    part.parent.mkdir()
    part.symlink_to(outside)
    fetch(_table(server), tmp_path)
    assert outside.read_bytes() == b"mine"
    assert (tmp_path / "table" / "data.txt").read_bytes() == CONTENT


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("rest", [b"something else", 2 * CONTENT])
def test_leftover_that_does_not_fit_is_thrown_away(server, tmp_path, rest, ranges):
    server.ranges = ranges
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "data.txt.part").write_bytes(rest)
    fetch(_table(server), tmp_path)
    assert (tmp_path / "table" / "data.txt").read_bytes() == CONTENT


def test_two_at_once_download_once(server, tmp_path):
    data_set = _table(server)
    with ThreadPoolExecutor(2) as pool:
        new = list(pool.map(lambda _: fetch(data_set, tmp_path), range(2)))
    assert sorted(map(len, new)) == [0, 1]
    assert len(server.requests) == 1


def test_directory_that_cannot_be_made_is_an_error_with_a_cure(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="--data-dir"):
        fetch(_table(server), tmp_path / "file")


MEMBER = DataFile("in/data.txt", _sha256(CONTENT), len(CONTENT), 2000)


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def _link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def test_archive_is_downloaded_unpacked_and_removed(server, tmp_path):
    path = _tar(tmp_path / "a.tar.gz", (tarfile.TarInfo("in/data.txt"), CONTENT))
    server.files["a.tar.gz"] = path.read_bytes()
    data_set = DataSet(
        "table",
        "table",
        "none",
        "nowhere",
        read_table,
        (MEMBER,),
        Published(
            server.url("a.tar.gz"), _sha256(path.read_bytes()), path.stat().st_size
        ),
    )
    assert fetch(data_set, tmp_path) == (tmp_path / "table" / "in" / "data.txt",)
    assert read(data_set, tmp_path).incomplete is None
    assert not (tmp_path / "table" / "a.tar.gz").exists()


@pytest.mark.parametrize(
    "evil",
    [
        (tarfile.TarInfo("../evil.txt"), b"evil"),
        (tarfile.TarInfo("a/../../evil.txt"), b"evil"),
        (_link("in", "/tmp"), b""),
        (_link("in/data.txt", "../../../evil.txt"), b""),
    ],
    ids=["parent", "hidden parent", "folder out", "file out"],
)
def test_archive_that_leads_elsewhere_is_refused_untouched(tmp_path, evil):
    folder = tmp_path / "folder"
    folder.mkdir()
    good = (tarfile.TarInfo("in/data.txt"), CONTENT)
    path = _tar(tmp_path / "a.tar.gz", evil, good)
    with pytest.raises(DataError, match=r"a\.tar\.gz: "):
        extract(path, [MEMBER], folder)
    assert list(folder.iterdir()) == []
    assert not (tmp_path / "evil.txt").exists()


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ([(tarfile.TarInfo("other"), CONTENT)], "not the published archive"),
        ([(tarfile.TarInfo("in/data.txt"), CONTENT[::-1])], "not as published"),
        ([(tarfile.TarInfo("in/data.txt"), 9 * CONTENT)], "not as published"),
    ],
    ids=["lacks the member", "another content", "another size"],
)
def test_archive_with_other_members_is_refused(tmp_path, members, problem):
    path = _tar(tmp_path / "a.tar.gz", *members)
    with pytest.raises(DataError, match=problem):
        extract(path, [MEMBER], tmp_path / "folder")


def test_truncated_archive_is_refused(tmp_path):
    path = _tar(tmp_path / "a.tar.gz", (tarfile.TarInfo("in/data.txt"), CONTENT))
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(DataError, match="fetch it again"):
        extract(path, [MEMBER], tmp_path / "folder")
