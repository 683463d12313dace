"""Every algorithm takes a few steps on every task, at the task's smallest scale."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import pytest

from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.models import GPT2, ResNet, batch_normed, plain
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Run, Split, Task
from qlrstudy.store import RunDirectory
from qlrstudy.tasks import TASKS
from qlrstudy.train import Outcome, train

SMALLEST = {name: list(scales.values())[-1] for name, scales in TASKS.items()}
# Of deep networks all that matters here is their kind, and each layer costs compiling.
_IMAGES = batch_normed(ResNet(width=4, blocks=(1,)), (32, 32, 3))
_TEXT = plain(GPT2(width=8, depth=1, heads=2, context=64), (2,), jnp.int32)
DEEP = {"svhn": _IMAGES, "cifar-10": _IMAGES, "penn-treebank": _TEXT}
CASES = {
    name: dataclasses.replace(task, **DEEP[name]._asdict()) if name in DEEP else task
    for name, task in SMALLEST.items()
}


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


@pytest.mark.slow
@pytest.mark.parametrize("task", CASES.values(), ids=CASES)
def test_every_algorithm_trains_and_is_stored(
    task, real_data, hasty_compiler, tmp_path, subtests
):
    data = _few_examples(task, real_data)
    # Shallow networks also meet a batch that is not full; the deep ones are spared
    # the second program that K-FAC compiles for it.
    size = 15 if task.name in DEEP else 50
    shape = BatchShape(size, 8 if task.sequence_lengths else None)
    for name, algorithm in ALGORITHMS.items():
        with subtests.test(algorithm=name):
            run = Run(task, algorithm, algorithm.defaults, shape, 0, Budget(steps=3))
            _check(task, train(run, data, tmp_path))


def _check(task: Task, outcome: Outcome) -> None:
    directory = RunDirectory(outcome.path)
    manifest = directory.manifest()
    assert manifest is not None
    assert manifest["status"] == outcome.status
    last = directory.records()[-1]
    assert last.step == outcome.record.step == len(directory.steps().loss)
    assert math.isfinite(directory.steps().loss[0])
    if outcome.status == "finished":
        assert last.test_loss == outcome.record.test_loss
    else:
        # On Rosenbrock's valley, gradient descent leaves float32 within three steps.
        assert task.name == "rosenbrock"
