"""Every algorithm takes a few steps on every task, at the task's smallest scale."""

import dataclasses
import functools
import math

import jax
import pytest

from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Run, Split, Task
from qlrstudy.store import RunDirectory
from qlrstudy.tasks import TASKS
from qlrstudy.train import train

SMALLEST = {name: list(scales.values())[-1] for name, scales in TASKS.items()}
DEEP = ("svhn", "cifar-10", "penn-treebank")
CASES = [
    pytest.param(
        SMALLEST[task],
        ALGORITHMS[algorithm],
        id=f"{task}-{algorithm}",
        marks=[pytest.mark.slow] if task in DEEP else [],
    )
    for task in TASKS
    for algorithm in ALGORITHMS
]


@functools.cache
def _few_examples(task: Task, options: DataOptions) -> Dataset:
    data = task.load(options)
    cut = lambda split: Split(split.inputs[:120], split.targets[:120])
    parts = {name: cut(getattr(data, name)) for name in ("train", "validation", "test")}
    return dataclasses.replace(data, **parts)


@pytest.fixture
def hasty_compiler():
    """Three steps are not worth optimising a program for."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.parametrize(("task", "algorithm"), CASES)
def test_trains_and_stores(task, algorithm, real_data, hasty_compiler, tmp_path):
    # Shallow networks also meet a batch that is not full; the deep ones are spared
    # the second program that K-FAC compiles for it.
    size = 15 if task.name in DEEP else 50
    shape = BatchShape(size, 8 if task.sequence_lengths else None)
    data = _few_examples(task, real_data)
    run = Run(task, algorithm, algorithm.defaults, shape, 0, Budget(steps=3))
    outcome = train(run, data, tmp_path)

    directory = RunDirectory(outcome.path)
    manifest = directory.manifest()
    assert manifest is not None
    assert manifest["status"] == outcome.status
    assert directory.records()[-1] == pytest.approx(outcome.record, nan_ok=True)
    assert len(directory.steps().loss) == outcome.record.step
    assert math.isfinite(directory.steps().loss[0])
    # On Rosenbrock's valley, plain gradient descent leaves float32 within three steps.
    assert outcome.status == "finished" or task.name == "rosenbrock"
