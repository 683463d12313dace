"""The command line, as a newcomer or a scheduler would use it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from qlrstudy.cli import main as cli
from qlrstudy.cli import options, run
from qlrstudy.store.manifest import Titles
from qlrstudy.store.runs import RunDirectory


@pytest.fixture(autouse=True)
def own_signals(monkeypatch):
    """Commands set handlers, which must not outlive them here."""
    monkeypatch.setattr(options, "stop_on_signals", lambda: lambda: False)
    monkeypatch.setattr(run, "keep_compiled_programs", lambda: None)


def _json(capsys) -> dict:
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_last_line_is_json(capsys, tmp_path):
    arguments = ["rosenbrock", "adamqlr-untuned", "--scale", "shown", "--json"]
    assert cli.main(["run", *arguments, "--store", str(tmp_path)]) == 0
    answer = _json(capsys)
    assert answer["task"] == "rosenbrock"
    assert answer["algorithm"] == "adamqlr-untuned"
    assert answer["scale"] == "shown"
    assert answer["status"] == "finished"
    assert answer["steps"] == 200
    assert answer["test_accuracy"] is None
    assert answer["hyperparameters"]["damping"] == 1e-3
    for name in ("training", "validation", "test"):
        assert answer[f"{name}_loss"] >= 0
    assert answer["training_seconds"] > 0
    assert answer["compile_seconds"] > 0
    positions = RunDirectory(Path(answer["path"])).positions()
    assert len(positions) == 201
    assert positions[0] == (0, [1.0, -1.0])


def test_a_manifest_explains_itself_without_the_code(tmp_path):
    arguments = ["diabetes", "sgd-full", "--steps", "1", "--json"]
    assert cli.main(["run", *arguments, "--store", str(tmp_path)]) == 0
    manifest = _stored(tmp_path).manifest()
    assert manifest is not None
    assert manifest.titles == Titles("Diabetes", "SGD Full")
    bounds = {"low": 1e-4, "high": 0.3, "complement": True}
    assert manifest.search is not None
    assert manifest.search["momentum"] == bounds
    assert manifest.search["batch_size"].get("choices")


def test_settings_come_from_the_paper_then_the_user(capsys, tmp_path):
    arguments = ["rosenbrock", "adamqlr-tuned", "--steps", "2", "--json"]
    arguments += ["--hyperparameters", "paper", "--set", "damping_decrease=0.75"]
    assert cli.main(["run", *arguments, "--store", str(tmp_path)]) == 0
    chosen = _json(capsys)["hyperparameters"]
    assert chosen["damping"] == pytest.approx(4 * 0.414)  # of a loss four times theirs
    assert chosen["damping_decrease"] == 0.75
    assert chosen["damping_increase"] == 1.1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["digit", "adam"], "TASK.*'digit'.*did you mean 'digits'"),
        (["digits", "adams"], "ALGORITHM.*'adams'.*did you mean 'adam'"),
        (["digits", "adam", "--scale", "laptop"], "--scale.*paper.*'laptop'"),
        (["digits", "adam", "--set", "damping=1"], "learning_rate.*'damping'"),
        (["digits", "adam", "--set", "learning_rate"], "NAME=NUMBER"),
        (["digits", "adam", "--set", "learning_rate=nan"], "learning_rate.*nan"),
        (["digits", "adam", "--batch-size", "0"], "batch_size.*at least 1.*0"),
        (["digits", "adam", "--epochs", "0"], "positive number of epochs"),
        (["digits", "adamqlr-tuned", "--set", "damping=0"], "Damping.*must lie in"),
        (["digits", "adam", "--hyperparameters", "paper"], "paper has no hyper.*--set"),
        (["digits", "adam", "--hyperparameters", "gone.json"], "gone.json.*JSON"),
        (["uci-energy", "adam", "--data-dir", "/nowhere"], "/nowhere"),
        (["digits", "adam", "--store", "/proc/nowhere"], "--store"),
    ],
)
def test_mistakes_name_argument_value_and_cure(arguments, said, capsys):
    assert cli.main(["run", *arguments]) == 2
    message = capsys.readouterr().err
    assert message.startswith("qlrstudy: error: ")
    assert re.search(said, message, re.DOTALL)


def test_a_run_that_the_store_has_is_found_and_said(capsys, tmp_path):
    arguments = ["diabetes", "adam", "--steps", "1", "--store", str(tmp_path)]
    assert cli.main(["run", *arguments]) == 0
    assert "found in the store" not in capsys.readouterr().out
    assert cli.main(["run", *arguments]) == 0
    assert "finished, found in the store: not trained" in capsys.readouterr().out
    assert cli.main(["run", *arguments, "--json"]) == 0
    assert _json(capsys)["found"] is True


def test_after_an_interruption_the_command_says_how_to_go_on(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.setattr(options, "stop_on_signals", lambda: lambda: True)
    arguments = ["diabetes", "adam", "--steps", "9", "--store", str(tmp_path)]
    assert cli.main(["run", *arguments]) == 130
    said = capsys.readouterr().err
    assert "interrupted: the same command goes on from step 1" in said


STEPS = 5_000  # far more than are taken before a signal arrives
# Checkpoints after a tenth of a second, so that none is waited for.
HASTY = """
import sys
from qlrstudy.cli import main
from qlrstudy.training import train
train.CHECKPOINT_SECONDS = 0.1
sys.exit(main.main(sys.argv[1:]))
"""


def _long_run(store) -> list[str]:
    settings = ["--batch-size", "100", "--set", "learning_rate=1e-5"]
    length = ["--steps", str(STEPS), "--store", str(store), "--json"]
    return ["run", "digits", "adam", *settings, *length]


def _kill_after_checkpoint(store, number: int) -> int:
    begin = time.time()
    command = [sys.executable, "-c", HASTY, *_long_run(store)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    newest = lambda: [p.stat().st_mtime for p in store.glob("*/checkpoint.npz")]
    while max(newest(), default=0.0) < begin:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, number)
    return process.wait(timeout=60)


def _stored(store) -> RunDirectory:
    (path,) = store.iterdir()
    return RunDirectory(path)


@pytest.mark.slow
def test_after_kill_9_and_ctrl_c_the_same_command_ends_as_if_nothing_was(tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    assert _kill_after_checkpoint(killed, signal.SIGKILL) == -signal.SIGKILL
    manifest = _stored(killed).manifest()
    assert manifest is not None and manifest.status == "running"
    seen = len(_stored(killed).steps().loss)
    assert 0 < seen < STEPS

    assert _kill_after_checkpoint(killed, signal.SIGINT) == 130
    manifest = _stored(killed).manifest()
    assert manifest is not None and manifest.status == "interrupted"

    for store in (killed, whole):
        assert cli.main(_long_run(store)) == 0
    np.testing.assert_array_equal(_stored(killed).steps(), _stored(whole).steps())
    ours, theirs = (_stored(store).records() for store in (killed, whole))
    assert [r.test_loss for r in ours] == [r.test_loss for r in theirs]
