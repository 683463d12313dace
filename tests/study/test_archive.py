"""Results as one small file: back and forth, and nothing from outside the store."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qlrstudy.spec import Record, StepReport
from qlrstudy.store import archive
from qlrstudy.store.manifest import Manifest, Status
from qlrstudy.store.runs import RunDirectory, read_runs


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
    assert archive.unpack(tmp_path / "x" / "some.parquet", back) == 5
    known = {p.name: manifest for p, manifest in read_runs(store).manifests.items()}
    del known["c"]  # it has not ended
    found = read_runs(back).manifests
    assert {p.name: manifest for p, manifest in found.items()} == known
    kept = RunDirectory(back / "a").records()
    assert len(kept) == archive.POINTS
    assert (kept[0].step, kept[-1].step) == (0, 99)
    assert kept[-1].test_loss == pytest.approx(33.0)
    book = json.loads((back / "studies" / "some-paper.json").read_text())
    assert book["entries"] == []
    assert archive.unpack(tmp_path / "x" / "some.parquet", back) == 0


def test_the_path_and_some_steps_are_kept_for_figures(tmp_path):
    store = _store(tmp_path / "store")
    directory = RunDirectory(store / "b")
    losses = np.where(np.arange(1000) < 997, 1 / np.arange(1, 1001), np.nan)
    directory.append_steps(StepReport(losses, losses / 2, losses / 3, losses / 4))
    for step in range(100):
        directory.append_position(step, [step / 3, -step])
    archive.pack(store, tmp_path / "some.parquet")
    archive.unpack(tmp_path / "some.parquet", tmp_path / "back")
    back = RunDirectory(tmp_path / "back" / "b")
    np.testing.assert_allclose(back.positions(), directory.positions(), rtol=1e-5)
    numbers, kept = back.some_steps(2000)
    assert len(numbers) <= archive.STEPS + 1
    assert {1, 997, 1000} <= set(numbers)  # 997: the last with a loss
    np.testing.assert_allclose(kept.loss, losses[numbers - 1], rtol=1e-3)
    np.testing.assert_allclose(kept.damping, losses[numbers - 1] / 3, rtol=1e-3)
    assert RunDirectory(tmp_path / "back" / "a").some_steps(9).numbers.size == 0


@pytest.mark.parametrize("name", ["../out", "/out", "a/../../out", "..\\out"])
def test_a_path_outside_of_the_store_is_refused(name, tmp_path):
    rows = {"path": ["in", name], "text": ["", ""]}
    pq.write_table(pa.table(rows), tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match="outside of the store"):
        archive.unpack(tmp_path / "bad.parquet", tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_a_file_of_another_kind_and_an_empty_store_are_refused(tmp_path):
    (tmp_path / "some.txt").write_text("text")
    with pytest.raises(ValueError, match="qlrstudy pack"):
        archive.unpack(tmp_path / "some.txt", tmp_path / "store")
    with pytest.raises(ValueError, match="STORE must hold runs"):
        archive.pack(tmp_path, tmp_path / "x.parquet")
