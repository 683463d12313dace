"""The store: readable at any moment, whatever happens to its writers."""

import hashlib
import json
import math
import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qlrstudy.spec import Record, StepReport
from qlrstudy.store import studies
from qlrstudy.store.checkpoints import Checkpoint
from qlrstudy.store.files import DamagedError, NewerError, StoreError
from qlrstudy.store.manifest import Identity, Manifest, Status, digest
from qlrstudy.store.marks import is_marked, mark
from qlrstudy.store.runs import RunDirectory, read_runs, run_directory
from qlrstudy.store.status import contents
from qlrstudy.store.studies import StudyEntry
from qlrstudy.store.tunings import (
    Entry,
    Event,
    TuningDirectory,
    TuningIdentity,
    trial_seed,
)

IDENTITY = Identity(
    schema=1,
    task="t",
    scale="paper",
    algorithm="a",
    hyperparameters={"batch_size": 50, "learning_rate": 0.1},
    seed=0,
    budget={"steps": 10},
    data={},
    examples={"train": 1},
)


def _manifest(status: Status, **changed) -> Manifest:
    return Manifest(**msgspec.structs.asdict(IDENTITY), status=status, **changed)


def _record(step: int, loss: float = 1.0) -> Record:
    return Record(step, step / 10, 0.5, *[loss] * 10)


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
    directory.close(_manifest(Status.FINISHED))
    assert directory.records() == [records[0], pytest.approx(records[1], nan_ok=True)]
    np.testing.assert_array_equal(directory.steps(), before)
    found = directory.manifest()
    assert found is not None and set(found.checksums or ()) == {
        *("records.jsonl", "steps.parquet")
    }
    known = msgspec.structs.replace(found, checksums=None)
    assert known == _manifest(Status.FINISHED)
    assert not directory.damage()
    assert not (directory.path / "steps.f32").exists()


def test_a_line_that_was_cut_short_spoils_no_other(directory):
    directory.append_record(_record(0))
    path = directory.path / "records.jsonl"
    path.write_bytes(path.read_bytes() + b'{"step": 5, "epo')
    assert directory.records() == [_record(0)]
    directory.append_record(_record(5))
    assert directory.records() == [_record(0), _record(5)]


def test_evaluations_of_before_the_minibatch_accuracy_are_read(directory):
    directory.append_record(_record(0))
    path = directory.path / "records.jsonl"
    before = json.loads(path.read_text())
    del before["minibatch_training_accuracy"], before["checksum"]
    path.write_text(json.dumps(before) + "\n")
    (record,) = directory.records()
    assert record[:-1] == _record(0)[:-1]
    assert np.isnan(record.minibatch_training_accuracy)


def test_positions_are_kept_in_order(directory):
    assert directory.positions() == []
    for step, params in ((0, [1.0, -1.0]), (2, [0.5, 0.0]), (1, [0.75, -0.5])):
        directory.append_position(step, params)
    assert directory.positions() == [
        (0, [1.0, -1.0]),
        (1, [0.75, -0.5]),
        (2, [0.5, 0.0]),
    ]


def test_what_came_after_the_checkpoint_is_dropped(directory):
    directory.append_steps(_reports(7))
    directory.append_record(_record(7))
    directory.append_position(7, [1.0])
    leaves = [np.arange(3, dtype=np.float32), np.ones((2, 2))]
    directory.save(Checkpoint(7, 1.5, 2.5, leaves))
    directory.append_steps(_reports(5))
    directory.append_record(_record(12))
    directory.append_position(12, [2.0])
    checkpoint = directory.restore()
    assert checkpoint is not None
    assert directory.records() == [_record(7)]
    assert directory.positions() == [(7, [1.0])]
    assert checkpoint[:3] == (7, 1.5, 2.5)
    for restored, saved in zip(checkpoint.leaves, leaves, strict=True):
        np.testing.assert_array_equal(restored, saved)
    assert len(directory.steps().loss) == 7


def test_identity_is_by_value(tmp_path):
    order = dict(reversed(IDENTITY.hyperparameters.items()))
    same = msgspec.structs.replace(IDENTITY, hyperparameters=order)
    other = msgspec.structs.replace(IDENTITY, hyperparameters={"batch_size": 50})
    assert run_directory(tmp_path, IDENTITY).path == run_directory(tmp_path, same).path
    assert run_directory(tmp_path, other).path != run_directory(tmp_path, same).path


def test_names_are_those_of_the_committed_results():
    """As `results/` has them: of another hash no stored run would be found again."""
    sums = "8aa1c4bf5c1c0ba6e03fbc4fe4e4ee5d3a1f6f2d1c1a3d1f0a0b0c0d0e0f0a0b"
    known = msgspec.structs.replace(
        IDENTITY,
        hyperparameters={"batch_size": 16, "learning_rate": 0.0003},
        data={"a/b": sums},
    )
    text = (
        '{"algorithm": "a", "budget": {"steps": 10}, "data": {"a/b": "%s"}, '
        '"examples": {"train": 1}, "hyperparameters": {"batch_size": 16, '
        '"learning_rate": 0.0003}, "scale": "paper", "schema": 1, "seed": 0, '
        '"task": "t"}'
    )
    expected = hashlib.sha256((text % sums).encode()).hexdigest()[:12]
    assert digest(known) == expected


_WRITER = """
import pathlib, sys
from qlrstudy.spec import Record
from qlrstudy.store.manifest import Identity, Manifest, Status
from qlrstudy.store.runs import run_directory
store, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2])
fields = dict(schema=1, task="t", scale="paper", algorithm="a", hyperparameters={},
              seed=seed, budget={"steps": 50}, data={}, examples={})
directory = run_directory(store, Identity(**fields))
with directory.claim():
    for step in range(50):
        directory.append_record(Record(step, *[1.0] * 11))
        directory.write_manifest(Manifest(**fields, status=Status.RUNNING, steps=step))
    directory.close(Manifest(**fields, status=Status.FINISHED))
"""


def test_many_writers_share_a_store(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path), str(seed)])
        for seed in range(2)
    ]
    while any(writer.poll() is None for writer in writers):
        assert not read_runs(tmp_path).damage  # whole at every moment
    assert [writer.returncode for writer in writers] == [0, 0]
    found = read_runs(tmp_path).manifests.values()
    assert [manifest.seed for manifest in found] == [0, 1]


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
        directory.write_manifest(_manifest(Status.RUNNING))
        directory.append_record(_record(0))
        directory.append_steps(_reports(10))
        directory.save(Checkpoint(10, 1.0, 1.0, [np.ones(10)]))
        with pytest.raises(StoreError, match="No space left.*--store"):
            directory.save(Checkpoint(20, 1.0, 1.0, [np.ones(100_000)]))
        with pytest.raises(StoreError, match="No space left"):
            directory.append_steps(_reports(100_000))
        with pytest.raises(StoreError, match="No space left"):
            directory.write_manifest(_manifest(Status.FAILED, error="x" * 100_000))
        assert directory.manifest() == _manifest(Status.RUNNING)
        assert directory.records() == [_record(0)]
        checkpoint = directory.restore()
    assert checkpoint is not None and checkpoint.step == 10
    assert not [path for path in directory.path.iterdir() if ".npz." in path.name]


def test_numbers_that_are_not_finite_are_null(directory):
    last = {"test_loss": math.inf, "training_loss": math.nan}
    directory.write_manifest(_manifest(Status.DIVERGED, last=last))
    text = (directory.path / "manifest.json").read_text()
    assert json.loads(text)["last"] == {"test_loss": None, "training_loss": None}


def test_what_is_final():
    assert {status for status in Status if status.is_final} == {
        *(Status.FINISHED, Status.DIVERGED, Status.STOPPED)
    }


@pytest.mark.parametrize("size", [0, 1, 40, 150])
def test_a_cut_manifest_is_named_and_may_be_written_anew(directory, size):
    directory.write_manifest(_manifest(Status.RUNNING))
    path = directory.path / "manifest.json"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(DamagedError, match="manifest.json: is damaged"):
        directory.manifest()
    directory.write_manifest(_manifest(Status.RUNNING))
    assert directory.manifest() == _manifest(Status.RUNNING)


def test_a_later_schema_is_no_damage(directory):
    path = directory.path / "manifest.json"
    path.write_text('{"schema": 2, "everything": "else"}')
    with pytest.raises(NewerError, match="schema is 2.*reads 1"):
        directory.manifest()


def test_a_run_begun_anew_keeps_nothing_of_the_first(directory):
    directory.append_record(_record(3))
    directory.append_steps(_reports(3))
    directory.close(_manifest(Status.FINISHED))
    assert directory.restore() is None
    assert directory.records() == []
    assert len(directory.steps().loss) == 0


ENTRIES = [
    Entry(0, Event.CONTINUE, 1.0, 0.5, 1.0),
    Entry(1, Event.STOP, 1.5, 3e38, 1.0),
    Entry(1, Event.STOPPED, 1.5, None),
]


@given(st.data())
def test_a_log_cut_anywhere_keeps_the_lines_before_and_takes_the_next(
    tmp_path_factory, data
):
    directory = TuningDirectory(tmp_path_factory.mktemp("tuning"))
    for entry in ENTRIES:
        directory.append(entry)
    path = directory.path / "log.jsonl"
    whole = path.read_bytes()
    size = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:size])
    kept = ENTRIES[: whole[:size].count(b"\n")]
    assert directory.log() == (kept, [])
    new = Entry(2, Event.CONTINUE, 1.0, 0.25, 1.0)
    directory.append(new)
    assert directory.log() == ([*kept, new], [])


@given(st.data())
def test_records_cut_anywhere_likewise(tmp_path_factory, data):
    directory = RunDirectory(tmp_path_factory.mktemp("run"))
    for step in range(3):
        directory.append_record(_record(step, 0.1 * step))
    path = directory.path / "records.jsonl"
    whole = path.read_bytes()
    size = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:size])
    kept = [_record(step, 0.1 * step) for step in range(whole[:size].count(b"\n"))]
    assert directory.read_records() == (kept, [])
    directory.append_record(_record(9))
    assert directory.read_records() == ([*kept, _record(9)], [])


@given(st.binary(max_size=60).filter(lambda line: b"\n" not in line))
def test_a_line_of_anything_is_damage_that_names_file_and_line(tmp_path_factory, line):
    directory = TuningDirectory(tmp_path_factory.mktemp("tuning"))
    directory.append(ENTRIES[0])
    with (directory.path / "log.jsonl").open("ab") as file:
        file.write(line + b"\n")
    directory.append(ENTRIES[1])
    values, damage = directory.log()
    assert values == ENTRIES[:2]
    (error,) = damage
    assert "log.jsonl" in str(error) and "line 2" in str(error)


def _entry(seed: int) -> StudyEntry:
    return StudyEntry("t", "paper", "a", False, {"batch_size": seed}, {}, [f"r{seed}"])


_ENTERING = """
import pathlib, sys
from qlrstudy.store.studies import StudyEntry, enter
path, first = pathlib.Path(sys.argv[1]), int(sys.argv[2])
for seed in range(first, first + 20):
    runs = [f"r{seed}"]
    entry = StudyEntry("t", "paper", "a", False, {"batch_size": seed}, {}, runs)
    enter(path, "some", "Some", [entry])
"""


def test_two_processes_list_their_runs_in_one_file(tmp_path):
    path = studies.study_file(tmp_path, "some", "paper")
    writers = [
        subprocess.Popen([sys.executable, "-c", _ENTERING, str(path), str(first)])
        for first in (0, 20)
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    listed = studies.read_study(path)
    assert listed is not None
    assert {entry.key for entry in listed.entries} == {
        _entry(seed).key for seed in range(40)
    }
    assert {path.name for path in path.parent.iterdir()} <= {
        *(path.name, f".{path.name}.lock")
    }


def _checkpointed(directory):
    directory.append_record(_record(0))
    directory.append_record(_record(7, 0.5))
    directory.append_steps(_reports(7))
    directory.save(Checkpoint(7, 1.5, 2.5, [np.arange(3)]))


@pytest.mark.parametrize("name", ["steps.f32", "records.jsonl"])
@pytest.mark.parametrize("size", [0, 10, -1])
def test_less_than_at_the_checkpoint_is_damage_and_never_extended(
    directory, name, size
):
    _checkpointed(directory)
    path = directory.path / name
    short = path.read_bytes()[:size]
    path.write_bytes(short)
    with pytest.raises(DamagedError, match=rf"{name}: is damaged \(has .* of the"):
        directory.restore()
    assert path.read_bytes() == short


@pytest.mark.parametrize("name", ["steps.f32", "records.jsonl", "checkpoint.npz"])
def test_a_changed_byte_before_the_checkpoint_is_damage(directory, name):
    _checkpointed(directory)
    path = directory.path / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=f"{name}: is damaged"):
        directory.restore()
    directory.clear()
    assert directory.restore() is None and directory.records() == []


@pytest.mark.parametrize(
    "content", [b"", b"no zip", b"PK\x03\x04", b"\x80\x04]\x94.", b"\x93NUMPY"]
)
def test_a_checkpoint_of_anything_is_damage_without_advice_to_unpickle(
    directory, content
):
    _checkpointed(directory)
    (directory.path / "checkpoint.npz").write_bytes(content)
    with pytest.raises(DamagedError, match="checkpoint.npz: is damaged") as caught:
        directory.restore()
    assert "pickle" not in str(caught.value)


def _closed(directory):
    for step in range(4):
        directory.append_record(_record(step, 1.0 / (1 + step)))
    directory.append_steps(_reports(4))
    last = _record(3, 0.25)._asdict()
    directory.close(_manifest(Status.FINISHED, last=last))


@pytest.mark.parametrize("old", [True, False], ids=["no checksums", "checksums"])
def test_cut_records_of_a_finished_run_are_not_believed(directory, old):
    _closed(directory)
    path = directory.path / "records.jsonl"
    if old:  # as stores were before
        plain = [json.loads(line) for line in path.read_text().splitlines()]
        [line.pop("checksum") for line in plain]
        path.write_text("".join(json.dumps(line) + "\n" for line in plain))
        directory.write_manifest(
            msgspec.structs.replace(directory.manifest(), checksums=None)
        )
    assert directory.ended() is not None
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]))
    with pytest.raises(DamagedError, match="records.jsonl: (is damaged|lacks)"):
        directory.ended()
    assert directory.damage()


@pytest.mark.parametrize("name", ["manifest.json", "records.jsonl", "steps.parquet"])
def test_a_changed_digit_of_a_finished_run_is_seen(directory, name):
    _closed(directory)
    path = directory.path / name
    content = path.read_bytes()
    place = content.find(b"0.25") + 2 if b"0.25" in content else len(content) // 2
    path.write_bytes(content[:place] + b"9" + content[place + 1 :])
    with pytest.raises(DamagedError, match=f"{name}: is damaged"):
        raise (directory.damage() or [AssertionError()])[0]


def test_a_decision_is_on_the_disk_before_the_next_line(tmp_path, monkeypatch):
    synchronised = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda n: synchronised.append(os.fstat(n).st_ino) or real(n)
    )
    directory = TuningDirectory(tmp_path)
    directory.append(ENTRIES[0])
    log = (tmp_path / "log.jsonl").stat().st_ino
    assert synchronised == [log, tmp_path.stat().st_ino]  # and by its name


def test_a_later_schema_of_any_file_is_named_and_left_alone(tmp_path):
    directory = TuningDirectory(tmp_path / "tunings" / "t-a-0")
    listed = studies.study_file(tmp_path, "some", "paper")
    later = '{"schema": 2, "else": 1}'
    for path in (directory.path / "tuning.json", listed):
        path.parent.mkdir(parents=True)
        path.write_text(later)
    with pytest.raises(NewerError, match="tuning.json: its schema is 2"):
        directory.begin(TUNING)
    with pytest.raises(NewerError, match="some-paper.json: its schema is 2"):
        studies.enter(listed, "some", "Some", [_entry(0)])
    assert listed.read_text() == (directory.path / "tuning.json").read_text() == later


TUNING = TuningIdentity(
    task="t",
    scale="paper",
    algorithm="a",
    search={},
    batch_sizes=(),
    sequence_lengths=(),
    budget={"steps": 1},
    metric="validation_loss",
    resource="epochs",
    seconds=1,
    seed=0,
    data={},
    examples={},
)


def test_runs_are_counted_in_the_order_of_their_names(tmp_path):
    for algorithm in ("adam-average", "adam"):  # as their directories are
        identity = msgspec.structs.replace(IDENTITY, algorithm=algorithm)
        run_directory(tmp_path, identity).write_manifest(
            msgspec.structs.replace(_manifest(Status.RUNNING), algorithm=algorithm)
        )
    names = [count.name for count in contents(tmp_path).algorithms]
    assert names == ["t adam", "t adam-average"]


def test_a_failed_trial_that_is_tried_again_is_counted_once(tmp_path):
    directory = TuningDirectory(tmp_path / "tunings" / "t-a-0")
    directory.begin(TUNING)
    for trial, event in ((0, Event.FINISHED), (1, Event.FAILED), (2, Event.FAILED)):
        directory.append(Entry(trial, event, 1.0, 0.5))
    for trial, status in enumerate((Status.FINISHED, Status.RUNNING, Status.FAILED)):
        seed = trial_seed(TUNING.seed, trial)
        identity = msgspec.structs.replace(IDENTITY, seed=seed)
        run_directory(directory.path / "runs", identity).write_manifest(
            msgspec.structs.replace(_manifest(status), seed=seed)
        )
    (found,) = contents(tmp_path).tunings
    assert found.states == {"finished": 1, "unfinished": 1, "failed": 1}


def test_a_damaged_list_is_kept_aside_and_begun_anew(tmp_path):
    path = studies.study_file(tmp_path, "some", "paper")
    studies.enter(path, "some", "Some", [_entry(0)])
    path.write_text(path.read_text()[:50])
    damage = studies.enter(path, "some", "Some", [_entry(1)])
    assert damage is not None and str(path) in str(damage)
    assert [entry.runs for entry in studies.read_study(path).entries] == [["r1"]]
    assert path.with_name(f"{path.name}.damaged").exists()
    assert len(studies.read_studies(tmp_path).lists) == 1


def test_who_looks_is_not_taken_for_a_writer(tmp_path):
    directory = run_directory(tmp_path, IDENTITY)
    assert not directory.is_claimed()
    with directory.claim():
        assert directory.is_claimed()
    looking = f"""
import pathlib
from qlrstudy.store.runs import RunDirectory
directory = RunDirectory(pathlib.Path({str(directory.path)!r}))
print("looks", flush=True)
while True:
    directory.is_claimed()
"""
    process = subprocess.Popen([sys.executable, "-c", looking], stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        for _ in range(300):
            with directory.claim():
                pass
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def read_only(tmp_path):
    """A store on a disk that nobody may write, with a run that has not ended."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a disk: {done.stderr.strip()}")
    try:
        with run_directory(place, IDENTITY).claim():
            _closed(run_directory(place, IDENTITY))
        other = run_directory(place, msgspec.structs.replace(IDENTITY, seed=1))
        with other.claim():
            other.write_manifest(_manifest(Status.RUNNING))
        again = ["mount", "-o", "remount,ro", str(place)]
        subprocess.run(again, check=True)
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_store_that_nobody_may_write_can_be_looked_at(read_only):
    found = contents(read_only)
    assert not found.damage
    assert found.algorithms[0].states == {"finished": 1, "unfinished": 1}


def test_two_processes_find_one_mark(tmp_path):
    program = "import pathlib, sys; from qlrstudy.store.marks import mark; "
    program += "print(mark(pathlib.Path(sys.argv[1])))"
    command = [sys.executable, "-c", program, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    assert len({process.communicate()[0] for process in both}) == 1
    (tmp_path / ".mark").write_bytes(b"\xff\x00")
    assert is_marked(tmp_path, mark(tmp_path))
