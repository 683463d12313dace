"""Many seeds of a chosen setting."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

from qlrstudy.cluster.jobs import Job
from qlrstudy.spec import DataOptions, Run, Task
from qlrstudy.store.runs import run_directory
from qlrstudy.training.provenance import DataIdentity, data_identity, identity

ReadIdentity = Callable[[Task], DataIdentity]


def identity_reader(options: DataOptions) -> ReadIdentity:
    """What a task's data are, read once; the data themselves are not kept."""
    return functools.cache(lambda task: data_identity(task.load(options)))


def repetitions(run: Run, count: int, data: DataIdentity) -> list[Job]:
    """A run with its own seed and the `count - 1` next ones, as jobs.

    Args:
        run: the first.
        count: how many.
        data: what the task's data are.
    """
    # What decides which programs are compiled.
    group = (run.task.name, run.task.scale, run.algorithm.name, run.shape)
    jobs = []
    for seed in range(run.seed, run.seed + count):
        repetition = dataclasses.replace(run, seed=seed)
        known = identity(repetition, data)
        place = run_directory(Path(), known).path.name
        jobs.append(Job(repetition, place, known, group))
    return jobs
