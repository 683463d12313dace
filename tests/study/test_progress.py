"""What is said while runs are under way, and at their end."""

import math
from typing import Any

import pytest

from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.cli import progress, results
from qlrstudy.cluster.jobs import Ending, RunningJob, Snapshot
from qlrstudy.spec import Record
from qlrstudy.store.manifest import Status
from qlrstudy.studies.repetitions import repetitions
from qlrstudy.tasks import TASKS
from qlrstudy.training.provenance import DataIdentity
from qlrstudy.training.resolve import run_with

JOB: Any = None  # nothing is asked of the jobs themselves
DONE = (JOB, Ending(Status.FINISHED, None))
FOUND = (JOB, Ending(Status.FINISHED, None, found=True))


def _snapshot(ended, running: int = 2, waiting: int = 6) -> Snapshot:
    return Snapshot(waiting, [RunningJob(JOB, None)] * running, ended)


@pytest.mark.parametrize("ended", [[], [FOUND] * 9, [DONE]])
def test_no_time_is_estimated_from_nothing(ended):
    assert progress.time_left(_snapshot(ended), 60.0) == "time left unknown yet"


def test_runs_that_were_found_do_not_count_for_the_time_left():
    ended = [*[FOUND] * 9, DONE, DONE]
    assert progress.time_left(_snapshot(ended), 60.0) == "about 4 min left"


def test_found_runs_are_said_in_one_line(capsys):
    lines = progress._Lines(begin=0.0)
    lines.watch(_snapshot([FOUND] * 9))
    assert capsys.readouterr().err == "9 runs found in the store: not done again\n"
    lines.watch(_snapshot([FOUND] * 9))
    assert capsys.readouterr().err == ""


def test_a_diverged_run_is_no_better_than_the_median(capsys):
    task, algorithm = TASKS["rosenbrock"]["shown"], ALGORITHMS["adam"]
    run = run_with(task, algorithm, {}, 0, None)
    losses = (math.nan, 1.0, 2.0, 3.0, math.nan)
    jobs = repetitions(run, len(losses), DataIdentity({}, {}))
    ended = [
        (job, Ending(Status.FINISHED, Record(9, *[loss] * 11)))
        for job, loss in zip(jobs, losses, strict=True)
    ]
    results.endings("title", ended)
    row = capsys.readouterr().out.splitlines()[-1]
    assert row.split("\t")[-2:] == ["3", "3"]
