"""The store: readable at any moment, whatever happens to its writers."""

import json
import subprocess
import sys

import numpy as np
import pytest

from qlrstudy.spec import Record, StepReport
from qlrstudy.store.runs import (
    Checkpoint,
    RunDirectory,
    StoreError,
    run_directory,
    runs,
)

IDENTITY = {"task": "t", "algorithm": "a", "seed": 0}


def _record(step: int, loss: float = 1.0) -> Record:
    return Record(step, step / 10, 0.5, *[loss] * 9)


def _reports(count: int) -> StepReport:
    return StepReport(*np.random.default_rng(0).normal(size=(4, count)))


@pytest.fixture
def directory(tmp_path):
    directory = run_directory(tmp_path, IDENTITY)
    with directory.claim():
        yield directory


def test_a_run_round_trips(directory):
    records = [_record(0), _record(10, float("nan"))]
    for record in records:
        directory.append_record(record)
    directory.append_steps(_reports(10))
    before = directory.steps()
    directory.close({"status": "finished"})
    assert directory.records() == [records[0], pytest.approx(records[1], nan_ok=True)]
    np.testing.assert_array_equal(directory.steps(), before)
    assert directory.manifest() == {"status": "finished"}
    assert not (directory.path / "steps.f32").exists()


def test_a_line_that_was_cut_short_spoils_no_other(directory):
    directory.append_record(_record(0))
    path = directory.path / "records.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step": 5, "epo')
    assert directory.records() == [_record(0)]
    directory.append_record(_record(5))
    assert directory.records() == [_record(0), _record(5)]


def test_positions_are_kept_in_order(directory):
    assert directory.positions() == []
    for step, params in ((0, [1.0, -1.0]), (2, [0.5, 0.0]), (1, [0.75, -0.5])):
        directory.append_position(step, params)
    assert directory.positions() == [[1.0, -1.0], [0.75, -0.5], [0.5, 0.0]]


def test_what_came_after_the_checkpoint_is_dropped(directory):
    directory.append_steps(_reports(7))
    directory.append_record(_record(7))
    leaves = [np.arange(3, dtype=np.float32), np.ones((2, 2))]
    directory.save(Checkpoint(7, 1.5, 2.5, leaves))
    directory.append_steps(_reports(5))
    checkpoint = directory.restore()
    assert checkpoint is not None
    assert checkpoint[:3] == (7, 1.5, 2.5)
    for restored, saved in zip(checkpoint.leaves, leaves, strict=True):
        np.testing.assert_array_equal(restored, saved)
    assert len(directory.steps().loss) == 7


def test_identity_is_by_value(tmp_path):
    other = {**IDENTITY, "hyperparameters": {"learning_rate": 0.1}}
    same = dict(reversed(other.items()))
    assert run_directory(tmp_path, other).path == run_directory(tmp_path, same).path
    assert run_directory(tmp_path, other).path != run_directory(tmp_path, IDENTITY).path


_WRITER = """
import pathlib, sys
from qlrstudy.spec import Record
from qlrstudy.store.runs import run_directory
store, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2])
directory = run_directory(store, {"task": "t", "algorithm": "a", "seed": seed})
with directory.claim():
    for step in range(50):
        directory.append_record(Record(step, *[1.0] * 11))
        directory.write_manifest({"status": "running", "step": step})
    directory.close({"status": "finished", "seed": seed})
"""


def test_many_writers_share_a_store(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path), str(seed)])
        for seed in range(2)
    ]
    while any(writer.poll() is None for writer in writers):
        for _, manifest in runs(tmp_path):  # whole at every moment
            assert "status" in manifest
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [manifest["seed"] for _, manifest in runs(tmp_path)] == [0, 1]


def test_a_second_writer_of_the_same_run_is_told(directory):
    with pytest.raises(StoreError, match="another process is writing"):
        with RunDirectory(directory.path).claim():
            pass


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a small disk: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_loses_nothing_that_was_written(small_disk):
    directory = run_directory(small_disk, IDENTITY)
    with directory.claim():
        directory.write_manifest({"status": "running"})
        directory.append_record(_record(0))
        directory.append_steps(_reports(10))
        directory.save(Checkpoint(10, 1.0, 1.0, [np.ones(10)]))
        with pytest.raises(StoreError, match="No space left.*--store"):
            directory.save(Checkpoint(20, 1.0, 1.0, [np.ones(100_000)]))
        with pytest.raises(StoreError, match="No space left"):
            directory.append_steps(_reports(100_000))
        with pytest.raises(StoreError, match="No space left"):
            directory.write_manifest({"status": "x" * 100_000})
        assert directory.manifest() == {"status": "running"}
        assert directory.records() == [_record(0)]
        checkpoint = directory.restore()
    assert checkpoint is not None and checkpoint.step == 10
    assert not [path for path in directory.path.iterdir() if ".npz." in path.name]


def test_numbers_that_are_not_finite_are_null(directory):
    directory.write_manifest({"last": {"loss": float("inf")}, "list": [float("nan")]})
    text = (directory.path / "manifest.json").read_text()
    assert json.loads(text) == {"last": {"loss": None}, "list": [None]}
