"""Results as one small file: back and forth, and nothing from outside the store."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qlrstudy.spec import Record, StepReport
from qlrstudy.store import archive, studies, unpacking
from qlrstudy.store.files import StoreError
from qlrstudy.store.manifest import Manifest, Status
from qlrstudy.store.runs import RunDirectory, read_runs, read_whole_runs
from qlrstudy.store.studies import StudyEntry
from qlrstudy.store.unpacking import unpack


def _manifest(status: str) -> Manifest:
    return Manifest(
        schema=1,
        task="ü",
        scale="paper",
        algorithm="a",
        hyperparameters={"learning_rate": 0.1},
        seed=0,
        budget={"epochs": 3},
        data={},
        examples={},
        status=Status(status),
    )


def _store(path, evaluations: int = 100):
    for name, status in (("a", "finished"), ("b", "diverged"), ("c", "interrupted")):
        directory = RunDirectory(path / name)
        directory.path.mkdir(parents=True)
        for step in range(evaluations):
            directory.append_record(Record(step, *[step / 3] * 11))
        directory.write_manifest(_manifest(status))
    (path / "studies").mkdir()
    book = {"name": "some", "title": "Some", "entries": []}
    (path / "studies" / "some-paper.json").write_text(json.dumps(book))
    return path


def test_a_file_becomes_the_same_store_with_fewer_evaluations(tmp_path):
    store, back = _store(tmp_path / "store"), tmp_path / "back"
    assert archive.pack(store, tmp_path / "x" / "some.parquet") == (2, [])
    assert unpack(tmp_path / "x" / "some.parquet", back) == 5
    known = {p.name: manifest for p, manifest in read_runs(store).manifests.items()}
    del known["c"]  # it has not ended
    found = read_runs(back).manifests
    plain = lambda manifest: msgspec.structs.replace(manifest, checksums=None)
    assert {p.name: plain(manifest) for p, manifest in found.items()} == known
    assert not read_whole_runs(back).damage
    kept = RunDirectory(back / "a").records()
    assert len(kept) == archive.POINTS
    assert (kept[0].step, kept[-1].step) == (0, 99)
    assert kept[-1].test_loss == pytest.approx(33.0)
    book = json.loads((back / "studies" / "some-paper.json").read_text())
    assert book["entries"] == []
    assert unpack(tmp_path / "x" / "some.parquet", back) == 0


def test_the_path_and_some_steps_are_kept_for_figures(tmp_path):
    store = _store(tmp_path / "store")
    directory = RunDirectory(store / "b")
    losses = np.where(np.arange(1000) < 997, 1 / np.arange(1, 1001), np.nan)
    directory.append_steps(StepReport(losses, losses / 2, losses / 3, losses / 4))
    for step in range(100):
        directory.append_position(step, [step / 3, -step])
    archive.pack(store, tmp_path / "some.parquet")
    unpack(tmp_path / "some.parquet", tmp_path / "back")
    back = RunDirectory(tmp_path / "back" / "b")
    places, known = back.positions(), directory.positions()
    assert [place.step for place in places] == [place.step for place in known]
    np.testing.assert_allclose(
        [place.params for place in places],
        [place.params for place in known],
        rtol=1e-5,
    )
    numbers, kept = back.some_steps(2000)
    assert len(numbers) <= archive.STEPS + 1
    assert {1, 997, 1000} <= set(numbers)  # 997: the last with a loss
    np.testing.assert_allclose(kept.loss, losses[numbers - 1], rtol=1e-3)
    np.testing.assert_allclose(kept.damping, losses[numbers - 1] / 3, rtol=1e-3)
    assert RunDirectory(tmp_path / "back" / "a").some_steps(9).numbers.size == 0


def test_a_store_that_was_unpacked_is_packed_as_it_was(tmp_path):
    store, files = _store(tmp_path / "store"), [tmp_path / "1", tmp_path / "2"]
    directory = RunDirectory(store / "a")
    losses = 1 / np.arange(1, 1001)
    directory.append_steps(StepReport(losses, losses / 2, losses / 3, losses / 4))
    for step in range(100):
        directory.append_position(step, [step / 3, -step])
    archive.pack(store, files[0])
    unpack(files[0], tmp_path / "back")
    archive.pack(tmp_path / "back", files[1])
    first, second = (pq.read_table(file).to_pydict() for file in files)
    assert dict(zip(*first.values(), strict=True)) == dict(
        zip(*second.values(), strict=True)
    )


def _listed(store: Path, *runs: str) -> Path:
    """A store whose study has a run of each of some tasks, named for its task."""
    path = studies.study_file(_store(store), "some", "paper")
    entries = [
        StudyEntry(run[0], "paper", "a", False, {}, {}, runs=[run]) for run in runs
    ]
    studies.enter(path, "some", "Some", entries)
    return path


def test_lists_of_one_study_are_merged(tmp_path):
    book = _listed(tmp_path / "store", "a-mine", "b-mine")
    _listed(tmp_path / "other", "b-theirs", "c-theirs")
    archive.pack(tmp_path / "other", tmp_path / "other.parquet")
    assert unpack(tmp_path / "other.parquet", tmp_path / "store") == 1
    merged = studies.read_study(book)
    assert merged is not None
    runs = [run for entry in merged.entries for run in entry.runs]
    assert runs == ["a-mine", "b-mine", "c-theirs"]
    assert unpack(tmp_path / "other.parquet", tmp_path / "store") == 0


def test_a_list_that_came_while_a_file_was_read_is_merged(tmp_path, monkeypatch):
    _listed(tmp_path / "other", "b-theirs", "c-theirs")
    archive.pack(tmp_path / "other", tmp_path / "other.parquet")
    book = studies.study_file(tmp_path / "store", "some", "paper")

    def moving(*arguments):
        # A study in another process, which knows nothing of the lock of unpackings.
        entries = [StudyEntry("b", "paper", "a", False, {}, {}, runs=["b-mine"])]
        studies.enter(book, "some", "Some", entries)
        return real_move(*arguments)

    real_move = unpacking._move
    monkeypatch.setattr(unpacking, "_move", moving)
    unpack(tmp_path / "other.parquet", tmp_path / "store")
    merged = studies.read_study(book)
    assert merged is not None
    runs = [run for entry in merged.entries for run in entry.runs]
    assert runs == ["b-mine", "c-theirs"]


def test_two_unpackings_at_once_lose_nothing(tmp_path, monkeypatch):
    files = [tmp_path / "first.parquet", tmp_path / "second.parquet"]
    for file, name in zip(files, ("a", "b"), strict=True):
        _listed(tmp_path / name, f"{name}-run")
        archive.pack(tmp_path / name, file)
    store = tmp_path / "store"

    def waiting(path, **options):  # for the other, which is done meanwhile
        with monkeypatch.context() as patch:
            patch.setattr(unpacking.files, "locked", real_lock)
            unpack(files[1], store)
        monkeypatch.setattr(unpacking.files, "locked", real_lock)
        return real_lock(path, **options)

    real_lock = unpacking.files.locked
    monkeypatch.setattr(unpacking.files, "locked", waiting)
    unpack(files[0], store)
    merged = studies.read_study(studies.study_file(store, "some", "paper"))
    assert merged is not None
    runs = [run for entry in merged.entries for run in entry.runs]
    assert runs == ["b-run", "a-run"]


def test_a_list_that_cannot_be_merged_leaves_the_store_as_it_was(tmp_path):
    book = _listed(tmp_path / "store", "a-mine")
    before = book.read_text()
    rows = {
        "path": ["new/manifest.json", "studies/some-paper.json"],
        "text": ["{}", "no list"],
    }
    with pytest.raises(ValueError, match=r"FILE .*some-paper.json is damaged"):
        _unpacked(tmp_path, **rows)
    assert book.read_text() == before and not (tmp_path / "store" / "new").exists()


@pytest.mark.parametrize(
    "name",
    [
        *("../out", "/out", "a/../../out", "..\\out", "a/../manifest.json"),
        *(".ssh/authorized_keys", ".ssh/manifest.json", "a/.lock", "a/run.sh"),
        *("a/checkpoint.npz", "a//manifest.json", "a/manifest.json\n", "manifest.json"),
        *("tunings/a/runs/b/manifest.json", "studies/.json", "studies/a.py", ""),
    ],
)
def test_a_path_outside_of_the_store_is_refused(name, tmp_path):
    rows = {"path": ["a/manifest.json", name], "text": ["", ""]}
    pq.write_table(pa.table(rows), tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match="outside of the store"):
        unpack(tmp_path / "bad.parquet", tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_file_of_another_kind_and_an_empty_store_are_refused(tmp_path):
    (tmp_path / "some.txt").write_text("text")
    with pytest.raises(ValueError, match="qlrstudy pack"):
        unpack(tmp_path / "some.txt", tmp_path / "store")
    with pytest.raises(ValueError, match="STORE must hold runs"):
        archive.pack(tmp_path, tmp_path / "x.parquet")


def _unpacked(tmp_path, **columns):
    pq.write_table(pa.table(columns), tmp_path / "bad.parquet")
    return unpack(tmp_path / "bad.parquet", tmp_path / "store")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"path": ["a/manifest.json"], "text": [None]},
            "'text' must hold .*null",
        ),
        ({"path": [None], "text": ["x"]}, "'path' must hold text, got null"),
        (
            {"path": ["a/manifest.json"], "text": [1]},
            "'text' must hold .*int64",
        ),
        ({"path": [["a"]], "text": ["x"]}, "column 'path' must hold text, got list"),
        ({"path": ["a/manifest.json"]}, "text"),
        ({"path": ["a/manifest.json"] * 2, "text": ["x", "y"]}, "is there twice"),
    ],
)
def test_odd_columns_are_named(columns, said, tmp_path):
    with pytest.raises(ValueError, match=rf"FILE .*bad.parquet: .*{said}"):
        _unpacked(tmp_path, **columns)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("repeated", [True, False], ids=["dictionary", "long"])
def test_a_small_file_that_becomes_a_huge_one_is_refused(
    repeated, tmp_path, monkeypatch
):
    monkeypatch.setattr(unpacking, "MOST_BYTES", 2**20)
    count, text = (64, "x" * 2**16) if repeated else (1, "x" * 2**22)
    names = [f"a{number}/manifest.json" for number in range(count)]
    with pytest.raises(ValueError, match="more than 1,048,576 bytes"):
        _unpacked(tmp_path, path=names, text=[text] * count)
    assert (tmp_path / "bad.parquet").stat().st_size < 2**18
    assert not (tmp_path / "store").exists()


def test_no_symbolic_link_is_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "a").symlink_to(outside)
    with pytest.raises(ValueError, match="a symbolic link, which is not followed"):
        _unpacked(tmp_path, path=["a/manifest.json"], text=["{}"])
    assert not [*outside.iterdir()]


def test_a_link_in_the_place_of_a_file_stays_as_it_is(tmp_path):
    (tmp_path / "store" / "a").mkdir(parents=True)
    link = tmp_path / "store" / "a" / "manifest.json"
    link.symlink_to(tmp_path / "new")
    assert _unpacked(tmp_path, path=["a/manifest.json"], text=["{}"]) == 0
    assert link.is_symlink() and not (tmp_path / "new").exists()


def test_an_unpacking_that_fails_leaves_no_half_run(tmp_path, monkeypatch):
    store, file = _store(tmp_path / "store"), tmp_path / "some.parquet"
    archive.pack(store, file)
    calls = []

    def full(self, *arguments, **options):
        calls.append(self)
        if len(calls) == 4:
            raise OSError(28, "No space left on device")
        return real_open(self, *arguments, **options)

    real_open = Path.open
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        with pytest.raises(StoreError, match="No space left"):
            unpack(file, tmp_path / "back")
    assert {p.name for p in (tmp_path / "back").iterdir()} == {".unpack.lock"}
    assert unpack(file, tmp_path / "back") == 5


def test_what_cannot_be_written_has_a_cure_that_the_command_has(tmp_path):
    store = _store(tmp_path / "store")
    archive.pack(store, tmp_path / "some.parquet")
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(StoreError, match="choose another place") as packed:
        archive.pack(store, tmp_path / "file" / "some.parquet")
    with pytest.raises(StoreError, match="choose another place") as unpacked:
        unpack(tmp_path / "some.parquet", tmp_path / "file")
    for error in (packed, unpacked):  # neither goes on with a run
        assert "checkpoint" not in str(error)


def test_damage_is_left_out_of_a_file_and_named(tmp_path):
    store = _store(tmp_path / "store")
    (store / "a" / "records.jsonl").write_text("no line\n")
    (store / "studies" / "other.json").write_bytes(b"\xff")
    packed, damage = archive.pack(store, tmp_path / "some.parquet")
    assert packed == 1
    assert [error.path.name for error in damage] == ["records.jsonl", "other.json"]
    unpack(tmp_path / "some.parquet", tmp_path / "back")
    assert [*read_whole_runs(tmp_path / "back").manifests] == [tmp_path / "back" / "b"]
