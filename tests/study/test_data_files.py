"""What a run makes of files that are whole, partial, missing or damaged."""

import hashlib
import shutil
from pathlib import Path

import pytest

from qlrstudy.data import (
    DATA_SETS,
    DataError,
    data_root,
    list_sets,
    read_set,
    registry,
    verify_sets,
)
from qlrstudy.data import sets as shelf
from qlrstudy.data.files import examine, matches, read
from qlrstudy.data.formats import read_cifar
from qlrstudy.data.registry import DataFile, DataSet
from qlrstudy.spec import DataOptions

WHOLE, OTHER = b"\x01" + bytes(3072), b"\x02" + bytes(3072)


def _small_set() -> DataSet:
    content = 3 * WHOLE
    checksum = "sha1:" + hashlib.sha1(content).hexdigest()
    files = (
        DataFile("first.bin", checksum, len(content), 3),
        DataFile("second.bin", checksum, len(content), 3, optional=True),
    )
    return DataSet("small", "small", "none", "nowhere", read_cifar, files)


def _write(root: Path, **contents: bytes) -> Path:
    (root / "small").mkdir()
    for name, content in contents.items():
        (root / "small" / f"{name}.bin").write_bytes(content)
    return root


def test_whole_set_is_read_and_recorded(tmp_path):
    root = _write(tmp_path, first=3 * WHOLE, second=3 * WHOLE)
    reading = read(_small_set(), root)
    assert reading.incomplete is None
    source = reading.sources[0]
    assert source.name == "small/first.bin"
    assert source.sha256 == hashlib.sha256(3 * WHOLE).hexdigest()
    assert (source.size, source.examples) == (3 * 3073, 3)


@pytest.mark.parametrize(
    ("contents", "problem"),
    [
        ({}, "first.bin is missing"),
        ({"first": 2 * WHOLE}, "first.bin has 2 of 3 published examples"),
        ({"first": 3 * WHOLE}, "second.bin is missing"),
        ({"first": 3 * OTHER}, "first.bin is not the published file"),
        ({"first": (3 * WHOLE)[:-1]}, "first.bin cannot be read"),
        ({"first": b""}, "first.bin cannot be read"),
    ],
)
def test_error_names_the_file_the_problem_and_the_cure(tmp_path, contents, problem):
    root = _write(tmp_path, **contents)
    with pytest.raises(DataError) as caught:
        read(_small_set(), root)
    assert str(root / "small") in str(caught.value)
    assert problem in str(caught.value)
    assert f"qlrstudy data fetch small --data-dir {root}" in str(caught.value)


@pytest.mark.parametrize(
    ("contents", "lacks"),
    [
        ({"first": 2 * WHOLE, "second": 3 * WHOLE}, "first.bin has 2 of 3"),
        ({"first": 3 * WHOLE}, "second.bin is missing"),
    ],
)
def test_partial_set_needs_leave_and_says_what_it_lacks(tmp_path, contents, lacks):
    root = _write(tmp_path, **contents)
    with pytest.raises(DataError, match="--partial-data"):
        read(_small_set(), root)
    reading = read(_small_set(), root, partial=True)
    assert reading.incomplete is not None
    assert lacks in reading.incomplete


@pytest.mark.parametrize(
    "contents",
    [
        {"second": 3 * WHOLE},
        {"first": 3 * OTHER, "second": 3 * WHOLE},
        {"first": (2 * WHOLE)[:-1], "second": 3 * WHOLE},
    ],
    ids=["a file it cannot do without", "altered", "truncated"],
)
def test_leave_for_partial_data_is_none_for_damaged_ones(tmp_path, contents):
    root = _write(tmp_path, **contents)
    with pytest.raises(DataError) as caught:
        read(_small_set(), root, partial=True)
    assert "--partial-data" not in str(caught.value)


def test_a_directory_in_a_files_place_is_missing(tmp_path):
    (tmp_path / "small" / "first.bin").mkdir(parents=True)
    small = _small_set()
    assert examine(small, small.files[0], tmp_path).state == "missing"


def test_real_files_are_as_the_registry_says(real_data):
    found = {(e.path.parts[-2], e.file.path): e for e in verify_sets((), real_data)}
    states = {name: e.state for name, e in found.items()}
    for folder in ("uci_energy", "uci_protein", "fashion_mnist", "penn_treebank"):
        assert {s for (f, _), s in states.items() if f == folder} == {"complete"}
    for (folder, _), state in states.items():
        expected = ("complete", "missing") if "cifar" in folder else ()
        expected = ("complete", "partial") if folder == "svhn" else expected
        assert not expected or state in expected


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999])
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("fashion-mnist", "t10k-images-idx3-ubyte.gz"),
        ("svhn", "test_32x32.mat"),
        ("cifar-10", "cifar-10-batches-bin/test_batch.bin"),
    ],
)
def test_truncated_real_files_are_damaged(real_data, tmp_path, name, file, keep):
    data_set = DATA_SETS[name]
    source = real_data.directory / data_set.folder / file
    target = tmp_path / data_set.folder / file
    target.parent.mkdir(parents=True)
    content = source.read_bytes()
    # Off the records' boundaries, as a broken copy is.
    target.write_bytes(content[: int(keep * len(content)) | 1])
    entry = next(entry for entry in data_set.files if entry.path == file)
    found = examine(data_set, entry, tmp_path)
    assert found.state == "damaged"
    assert "cannot be read" in found.problem


@pytest.mark.parametrize("name", DATA_SETS)
def test_the_sizes_are_those_of_the_published_files(real_data, name):
    for file in DATA_SETS[name].files:
        path = real_data.directory / DATA_SETS[name].folder / file.path
        if matches(path, file.checksum):
            assert path.stat().st_size == file.size


def test_one_changed_byte_is_noticed(real_data, tmp_path):
    folder = registry.UCI_ENERGY.folder
    shutil.copytree(
        real_data.directory / folder, tmp_path / folder, copy_function=shutil.copy
    )
    path = tmp_path / folder / "data.txt"
    path.chmod(0o644)
    path.write_text(path.read_text().replace("15.55", "15.56", 1))
    with pytest.raises(DataError, match="not the published file"):
        read_set(registry.UCI_ENERGY, DataOptions(tmp_path, partial=True))


def test_directory_given_goes_before_the_variable_and_the_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("QLR_DATA", raising=False)
    assert data_root(DataOptions()).name == "qlrstudy"
    monkeypatch.setenv("QLR_DATA", str(tmp_path / "variable"))
    assert data_root(DataOptions()) == tmp_path / "variable"
    assert data_root(DataOptions(tmp_path)) == tmp_path


def test_a_given_directory_is_never_downloaded_into(tmp_path, monkeypatch):
    monkeypatch.setattr(shelf, "fetch", lambda *_, **__: pytest.fail("downloads"))
    with pytest.raises(DataError, match="is missing"):
        read_set(registry.UCI_ENERGY, DataOptions(tmp_path))


def test_list_counts_files_without_reading_them(tmp_path):
    folder = tmp_path / "uci_energy"
    folder.mkdir()
    (folder / "data.txt").write_text("no table")
    status = {s.data_set.name: s for s in list_sets(DataOptions(tmp_path))}
    assert (status["uci-energy"].present, status["uci-energy"].size) == (1, 8)
    assert status["svhn"].present == 0


def test_unknown_set_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match="one of uci-energy, .* got 'mnist'"):
        verify_sets(["mnist"], DataOptions(tmp_path))


def test_registry_is_consistent():
    for name, data_set in DATA_SETS.items():
        assert name == data_set.name
        for file in data_set.files:
            algorithm, digest = file.checksum.split(":")
            assert len(digest) == hashlib.new(algorithm).digest_size * 2
            assert (file.url is None) == (data_set.archive is not None)
            assert not Path(file.path).is_absolute() and ".." not in file.path
