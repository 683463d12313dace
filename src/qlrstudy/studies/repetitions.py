"""Many seeds of a chosen setting."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qlrstudy.cluster.jobs import Job
from qlrstudy.spec import Run
from qlrstudy.store.runs import run_directory
from qlrstudy.training.provenance import identity


def repetitions(run: Run, count: int) -> list[Run]:
    """A run with its own seed and the `count - 1` next ones."""
    seeds = range(run.seed, run.seed + count)
    return [dataclasses.replace(run, seed=seed) for seed in seeds]


def jobs(run: Run, count: int, contents: Mapping[str, Any]) -> Iterator[Job]:
    """Repetitions as work for `cluster`.

    Args:
        run: the first.
        count: how many.
        contents: of the task's data; see `provenance`.
    """
    # What decides which programs are compiled.
    group = (run.task.name, run.task.scale, run.algorithm.name, run.shape)
    for repetition in repetitions(run, count):
        known = identity(repetition, contents)
        yield Job(repetition, run_directory(Path(), known).path.name, known, group)
