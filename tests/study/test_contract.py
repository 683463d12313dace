"""Every algorithm on every task, and every algorithm's runs in the store."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.models import GPT2, ResNet, batch_normed, plain
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Run, Split, Task
from qlrstudy.store.runs import RunDirectory
from qlrstudy.tasks import TASKS
from qlrstudy.training.train import Outcome, train

SMALLEST = {name: list(scales.values())[-1] for name, scales in TASKS.items()}
# Of deep networks all that matters here is their kind, and each layer costs compiling.
_IMAGES = batch_normed(ResNet(width=4, blocks=(1,)), (32, 32, 3))
_TEXT = plain(GPT2(width=8, depth=1, heads=2, context=64), (2,), jnp.int32)
_CHARACTERS = plain(GPT2(50, width=8, depth=1, heads=2, context=100), (2,), jnp.int32)
DEEP = {
    "svhn": _IMAGES,
    "cifar-10": _IMAGES,
    "penn-treebank": _TEXT,
    "penn-treebank-characters": _CHARACTERS,
}
_LAYERS = batch_normed(ResNet(width=4, blocks=(1,), direct=True), (32, 32, 3))
LAYERED = {"svhn": _LAYERS.predict, "cifar-10": _LAYERS.predict}
# Another task's network and likelihood on other data.
REPEATED = {
    "svhn",
    "penn-treebank-characters",
    "breast-cancer",
    "wine",
    "uci-protein-area",
    "svhn-grey",
    "python-manual",
    "python-manual-characters",
}
# Of these another algorithm makes the same program but for numbers, or an average; deep
# networks, which compile for a second each, are spared them.
VARIANTS = {
    "adam-untuned",
    "adam-tuned-epsilon",
    "adam-average",
    "adamqlr-untuned",
    "adamqlr-undamped",
    "prodigy-average",
    "schedule-free-average",
}
CASES = {
    name: dataclasses.replace(task, **DEEP[name]._asdict(), layered=LAYERED.get(name))
    if name in DEEP
    else task
    for name, task in SMALLEST.items()
}
TRACEABLE = {name: a for name, a in ALGORITHMS.items() if a.traceable}
OWN_NETWORK = {name: task for name, task in CASES.items() if name not in REPEATED}
DIABETES = SMALLEST["diabetes"]
EXAMPLES = 120


@functools.cache
def _few_examples(task: Task, options: DataOptions) -> Dataset:
    data = task.load(options)
    cut = lambda split: Split(split.inputs[:EXAMPLES], split.targets[:EXAMPLES])
    parts = {name: cut(getattr(data, name)) for name in ("train", "validation", "test")}
    return dataclasses.replace(data, **parts)


def _shape(task: Task, size: int) -> BatchShape:
    return BatchShape(size, 8 if task.sequence_lengths else None)


@pytest.fixture
def hasty_compiler():
    """Three steps are not worth optimising a program for."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def compilations():
    """Grows by an entry whenever JAX traces or compiles something."""
    seen = []

    def listen(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if event.startswith("/jax/core/compile"):
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


def _three_steps(task: Task, train: Split) -> dict[str, tuple[Any, Any]]:
    """Losses and evaluated parameters of each algorithm that can be traced.

    The third batch is not full. All algorithms make one program, which takes a third
    of the time of many, and the network is traced once for all of them; a scan also
    sees to it that no step changes a carry's types.
    """
    predict = jax.jit(task.predict, static_argnames="training")
    task = dataclasses.replace(task, predict=predict)
    size = 50
    if task.name in LAYERED:  # unoptimised convolutions take their time
        size, train = 10, Split(*[part[:25] for part in train])
    key, shape = jax.random.key(0), _shape(task, size)
    first = task.init(key)
    plan = [part[:3] for part in task.sampling.epoch(key, len(train.inputs), shape)]
    batches = jax.vmap(lambda *step: task.sampling.gather(train, *step, shape))(*plan)
    found = {}
    names = ("adam", "adamqlr") if task.name in REPEATED else TRACEABLE
    if task.name in DEEP:
        names = [name for name in names if name not in VARIANTS]
    for name, algorithm in ((name, TRACEABLE[name]) for name in names):
        settings = {k: jnp.float32(v) for k, v in algorithm.defaults.items()}
        stepper = algorithm.bind(task, settings | {"steps": jnp.float32(3)})
        begin = stepper.init(*first, jax.tree.map(lambda part: part[0], batches), key)
        step = lambda carry, batch, stepper=stepper: stepper.step(carry, batch, key)
        end, reports = jax.lax.scan(step, begin, batches)
        found[name] = reports.loss, stepper.params(end)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("task", CASES.values(), ids=CASES)
def test_every_algorithm_takes_steps(task, real_data, hasty_compiler, subtests):
    split = jax.device_put(_few_examples(task, real_data).train)
    found = jax.jit(functools.partial(_three_steps, task))(split)
    for name, (losses, evaluated) in found.items():
        with subtests.test(algorithm=name):
            assert math.isfinite(losses[0])
            finite = [np.isfinite(leaf).all() for leaf in jax.tree.leaves(evaluated)]
            # In Rosenbrock's valley, gradient descent leaves float32 within three.
            assert all(finite) or task.name == "rosenbrock"


@pytest.mark.slow
@pytest.mark.usefixtures("kfac_jax_installed")
@pytest.mark.parametrize("task", OWN_NETWORK.values(), ids=OWN_NETWORK)
def test_kfac_trains_and_is_stored(task, real_data, hasty_compiler, tmp_path):
    data, kfac = _few_examples(task, real_data), ALGORITHMS["kfac"]
    run = Run(task, kfac, kfac.defaults, _shape(task, 40), 0, Budget("steps", 3))
    _check(train(run, data, tmp_path))


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_runs_are_stored_and_another_setting_compiles_nothing(
    algorithm, hasty_compiler, tmp_path, compilations, request
):
    if not algorithm.traceable:
        request.getfixturevalue("kfac_jax_installed")
    data = _few_examples(DIABETES, DataOptions())
    shape = BatchShape(EXAMPLES)
    run = Run(DIABETES, algorithm, algorithm.defaults, shape, 0, Budget("steps", 2))
    _check(train(run, data, tmp_path))
    if algorithm.defaults:
        compilations.clear()
        halved = {name: value / 2 for name, value in run.settings.items()}
        train(dataclasses.replace(run, settings=halved), data, tmp_path)
        assert not compilations


def _check(outcome: Outcome) -> None:
    assert outcome.status == "finished"
    directory = RunDirectory(outcome.path)
    manifest = directory.manifest()
    assert manifest is not None
    assert manifest.status == outcome.status
    last = directory.records()[-1]
    assert last.step == outcome.record.step == len(directory.steps().loss)
    assert last.test_loss == outcome.record.test_loss
    assert np.isfinite(directory.steps().loss).all()
