"""What is said while runs are under way."""

from typing import Any

import pytest

from qlrstudy.cli import progress
from qlrstudy.cluster.jobs import Ending, RunningJob, Snapshot
from qlrstudy.store.manifest import Status

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
