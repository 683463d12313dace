"""Without kfac-jax all but the K-FAC algorithms works, and those name its extra."""

import os
import subprocess
import sys
from pathlib import Path

from qlrstudy.store.runs import read_runs
from report_cases import write_run

WITHOUT = """
import sys
sys.modules["kfac_jax"] = None
from qlrstudy.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def _without_kfac_jax(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *map(str, arguments)]
    wide = {**os.environ, "COLUMNS": "300"}
    return subprocess.run(command, capture_output=True, text=True, env=wide)


def _assert_names_the_extra(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 2, done.stderr
    assert "pip install 'adamqlr[kfac]'" in done.stdout + done.stderr


def test_a_run_names_the_extra(tmp_path):
    pair = ["rosenbrock", "kfac-untuned", "--scale", "shown"]
    _assert_names_the_extra(_without_kfac_jax("run", *pair, "--store", tmp_path))
    assert not list(read_runs(tmp_path)[0])


def test_a_study_with_kfac_names_the_extra_before_it_begins(tmp_path):
    study = ["study", "rosenbrock", "--scale", "smoke", "--store", tmp_path]
    names = ["--algorithms", "adam-untuned", "kfac-untuned"]
    _assert_names_the_extra(_without_kfac_jax(*study, *names))
    assert not list(read_runs(tmp_path)[0])


def test_its_cost_can_be_asked_for(tmp_path):
    study = ["study", "rosenbrock", "--scale", "smoke", "--store", tmp_path]
    assert _without_kfac_jax(*study, "--dry-run").returncode == 0


def test_results_that_have_it_are_reported(tmp_path):
    for algorithm in ("adam", "kfac"):
        write_run(tmp_path / "runs", algorithm=algorithm)
    report: Path = tmp_path / "report"
    options = ["--output", report, "--figures", "none"]
    done = _without_kfac_jax("report", tmp_path / "runs", *options)
    assert done.returncode == 0, done.stderr
    assert "K-FAC" in (report / "index.html").read_text()
