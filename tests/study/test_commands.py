"""Whole studies from the command line, on small stores and on the committed results."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from qlrstudy.cli import main as cli
from qlrstudy.cli import options
from qlrstudy.cluster import connection
from qlrstudy.store.manifest import Manifest
from qlrstudy.store.runs import RunDirectory, read_runs
from qlrstudy.studies import STUDIES
from report_cases import write_run

# Earlier tests have used JAX in this process, which a command does not.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork")

ROOT = Path(__file__).parents[2]
# Two algorithms on Rosenbrock's valley, one of them tuned first: a few seconds each.
SMOKE = ["study", "rosenbrock", "--scale", "smoke"]
SMOKE += ["--algorithms", "sgd-minimal", "adam-untuned"]


@pytest.fixture(autouse=True)
def own_signals(monkeypatch):
    """Handlers that do not outlive their command."""
    monkeypatch.setattr(options, "stop_on_signals", lambda: lambda: False)


@pytest.fixture(scope="module")
def ray():
    """A Ray with room for one worker, for all commands that may do without their own.

    Two studies start theirs: one that is left to end, and one that is killed.
    """
    connection.prepare(None)
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield ["--address", made.address]
    made.shutdown()


def _start(*arguments: object, **options) -> subprocess.Popen:
    """A command as a user gives it: those with workers handle signals and start Ray."""
    command = [sys.executable, "-m", "qlrstudy", *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **options)


def _command(*arguments: object) -> tuple[int, str, str]:
    process = _start(*arguments)
    out, err = process.communicate(timeout=240)
    return process.returncode, out, err


def _heard(capsys, *arguments: object) -> tuple[int, str, str]:
    """A command that starts no Ray, in this process, and all that it says."""
    code = cli.main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def _here(capsys, *arguments: object) -> tuple[int, str]:
    """Likewise, and what it shows."""
    return _heard(capsys, *arguments)[:2]


def _to_do(capsys, *arguments: object) -> tuple[int, int]:
    """Runs to do, and all there are, by `study --dry-run`."""
    code, shown = _here(capsys, *arguments, "--dry-run")
    assert code == 0
    rows = re.findall(r"(\d+) of (\d+)", shown)
    return sum(int(todo) for todo, _ in rows), sum(int(total) for _, total in rows)


def _row(shown: str, name: str) -> list[int]:
    """The numbers of a table's row."""
    (line,) = [line for line in shown.splitlines() if name in line]
    return [int(cell) for cell in line.split("\t")[1:] if cell]


def _best(shown: str) -> str:
    """What a tuning says that it found."""
    (line,) = [line for line in shown.splitlines() if "best: " in line]
    return line


def _losses(store: Path) -> dict[str, float]:
    found = read_runs(store).manifests
    return {path.name: RunDirectory(path).records()[-1].test_loss for path in found}


def _manifests(store: Path) -> dict[str, Manifest]:
    """All but the checksums, which an archive's thinned files have of their own."""
    return {
        path.name: msgspec.structs.replace(known, checksums=None)
        for path, known in read_runs(store).manifests.items()
    }


def test_studies_are_listed(capsys):
    code, shown = _here(capsys, "studies")
    assert code == 0
    assert all(name in shown for name in STUDIES)


def test_before_a_study_there_is_all_to_do_and_no_store(capsys, tmp_path):
    store = tmp_path / "store"
    assert _to_do(capsys, *SMOKE, "--store", store) == (8, 8)
    assert not store.exists()
    assert cli.main(["status", str(store)]) == 2
    assert "STORE must be a directory" in capsys.readouterr().err


def test_an_estimate_for_partial_data_says_that_it_is_for_all(capsys, tmp_path):
    study = ["study", "epoch-constrained", "--hyperparameters", "paper", "--dry-run"]
    study += ["--tasks", "svhn", "--algorithms", "adam", "--store", tmp_path]
    said = "estimated for all data of svhn"
    assert said in _here(capsys, *study, "--partial-data")[1]
    assert said not in _here(capsys, *study)[1]
    write_run(tmp_path, task="svhn", data={"svhn/train_32x32.mat": "0"})
    assert said not in _here(capsys, *study, "--partial-data")[1]


def test_an_estimate_says_once_what_is_out_of_reach(capsys, tmp_path):
    study = ["study", "penn-treebank", "--dry-run", "--store", tmp_path]
    _, shown = _here(capsys, *study)
    assert shown.count("out of reach") == 1
    assert re.search(r"a run on penn-treebank .* days \(sgd-full\), .* \(adam\)", shown)
    assert "compiling and evaluation of penn-treebank come on top" in shown


@pytest.mark.slow
def test_a_study_goes_on_in_pieces_and_after_a_kill(capsys, ray, tmp_path):
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    code, out, err = _command(*SMOKE, "--store", whole)
    assert code == 0, err
    assert "(tuning)" in out and "2 finished" in out

    process = _start(*SMOKE, "--store", pieces, start_new_session=True)
    deadline = time.monotonic() + 120
    while not any(m.status == "finished" for m in _manifests(pieces).values()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    os.killpg(process.pid, signal.SIGTERM)  # its Ray
    done = _to_do(capsys, *SMOKE, "--store", pieces)
    assert done[0] < done[1] == 8
    code, shown = _here(capsys, "status", pieces)
    assert code == 0 and "rosenbrock-smoke" in shown

    finished = next(p for p, m in _manifests(pieces).items() if m.status == "finished")
    hurt = [
        pieces / finished / "records.jsonl",
        pieces / "studies/rosenbrock-smoke.json",
    ]
    for path in hurt:
        path.write_bytes(b"[" + path.read_bytes()[1:])
    code, out, err = _heard(capsys, *SMOKE, "--store", pieces, *ray)
    assert code == 0, err
    assert all(str(path) in err for path in hurt), err
    assert _losses(pieces) == _losses(whole)
    assert _to_do(capsys, *SMOKE, "--store", pieces) == (0, 8)
    code, shown = _here(capsys, "status", pieces)
    assert code == 0
    assert _row(shown, "rosenbrock sgd-minimal") == [2]
    assert _row(shown, "rosenbrock-smoke") == [4]

    packed, back = tmp_path / "some.parquet", tmp_path / "back"
    assert _here(capsys, "pack", pieces, packed)[0] == 0
    assert _here(capsys, "unpack", packed, back)[0] == 0
    assert _to_do(capsys, *SMOKE, "--store", back) == (0, 8)
    assert _here(capsys, *SMOKE, "--store", back)[0] == 0  # starts no Ray: all is done
    assert _manifests(back) == _manifests(pieces)


@pytest.mark.slow
def test_a_study_that_is_asked_to_end_keeps_what_is_under_way(ray, tmp_path):
    """By a scheduler, say: Ray has a handler of its own for that, which just exits."""
    process = _start(*SMOKE, "--store", tmp_path, *ray)
    deadline = time.monotonic() + 120
    while not _manifests(tmp_path):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted: the same command goes on" in out + err
    assert "SIGTERM" not in err and "Traceback" not in err
    assert not [m for m in _manifests(tmp_path).values() if m.status == "running"]


@pytest.mark.slow
def test_a_tuning_is_shown_found_and_repeated(capsys, ray, tmp_path):
    store = ["--store", tmp_path, *ray]
    tune = ["tune", "rosenbrock", "sgd-minimal", "--resource", "epochs", "--samples"]
    code, out, err = _heard(capsys, *tune, 3, *store)
    assert code == 0, err
    assert "rung at step" in out and "best: learning_rate" in out
    code, shown = _here(capsys, "status", tmp_path)
    assert code == 0
    assert sum(_row(shown, "rosenbrock-sgd-minimal")) == 3
    (log,) = tmp_path.glob("tunings/*/log.jsonl")
    log.write_bytes(b"\0" + log.read_bytes()[1:])
    (log.parent / "best.json").write_bytes(b"")
    code, again, err = _heard(capsys, *tune, 3, *store)
    assert code == 0 and f"{log}: line 1: is damaged" in err, err
    assert _best(again) == _best(out)
    repeat = ["repeat", "rosenbrock", "sgd-minimal", "--hyperparameters", "best"]
    repeat += ["--steps", "3", "--repetitions", "2"]
    code, out, err = _heard(capsys, *repeat, *store)
    assert code == 0 and "2 finished" in out, err


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Committed results as stores: those asked for; `test_report_results` has all."""
    folder = tmp_path_factory.mktemp("results")
    for name in ("any-batch", "paper-studies", "reproduction"):
        file = ROOT / "results" / f"{name}.parquet"
        assert cli.main(["unpack", str(file), str(folder / name)]) == 0
    return folder


def test_committed_results_are_done_as_the_study_has_it(capsys, unpacked):
    """Of all tasks those whose data need no download."""
    study = ["study", "any-batch", "--tasks", "diabetes", "digits"]
    study += ["--algorithms", "adam", "prodigy", "muon"]
    study += ["--store", unpacked / "any-batch"]
    assert _to_do(capsys, *study) == (0, 168)
    assert cli.main([str(argument) for argument in study]) == 0
    assert "3 finished" in capsys.readouterr().out


def test_status_of_committed_results_counts_what_there_is(capsys, unpacked):
    code, shown = _here(capsys, "status", unpacked / "paper-studies")
    assert code == 0
    assert not re.search(r"\t-", shown)  # no number below zero
    assert _row(shown, "fashion-mnist-adam-f290b89c6915") == [17, 183]
    assert _row(shown, "rosenbrock-paper") == [7, 1]


@pytest.mark.slow
def test_committed_results_pack_to_themselves(capsys, unpacked, tmp_path):
    store, back = unpacked / "reproduction", tmp_path / "back"
    code, shown = _here(capsys, "pack", store, tmp_path / "again.parquet")
    assert code == 0 and "420 runs" in shown
    assert _here(capsys, "unpack", tmp_path / "again.parquet", back)[0] == 0
    assert _manifests(back) == _manifests(store)


@pytest.mark.slow
def test_one_damaged_manifest_is_named_and_the_rest_served(
    capsys, ray, unpacked, tmp_path
):
    store = tmp_path / "store"
    study = ["study", "any-batch", "--tasks", "diabetes", "--algorithms", "prodigy"]
    for path in (unpacked / "any-batch").glob("diabetes-prodigy-seed*"):
        shutil.copytree(path, store / path.name)
    hurt = sorted(store.iterdir())[0] / "manifest.json"
    hurt.write_text(hurt.read_text()[:100])

    assert cli.main(["status", str(store)]) == 1
    said = capsys.readouterr()
    assert _row(said.out, "diabetes prodigy") == [8]
    assert str(hurt) in said.err

    assert cli.main(["pack", str(store), str(tmp_path / "x.parquet")]) == 1
    said = capsys.readouterr()
    assert "8 runs" in said.out and str(hurt) in said.err

    assert _to_do(capsys, *study, "--store", store) == (1, 9)
    # The first run is done again by a worker, and all that is said of it names it.
    code, out, err = _heard(capsys, *study, "--store", store, *ray)
    assert code == 0 and str(hurt) in err, err
    assert _to_do(capsys, *study, "--store", store) == (0, 9)


def test_a_manifest_of_a_later_version_is_named_and_left_alone(capsys, unpacked):
    path = unpacked / "reproduction"
    later = min(path.glob("*/manifest.json"))
    before = later.read_text()
    text = json.dumps(json.loads(before) | {"schema": 2, "budget": 3})
    later.write_text(text)
    assert cli.main(["status", str(path)]) == 1
    assert f"{later}: its schema is 2" in capsys.readouterr().err
    assert later.read_text() == text
    later.write_text(before)
