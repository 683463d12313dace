"""Penn Treebank: the next word of newspaper text, by a GPT-2 trained from scratch."""

import dataclasses
from functools import partial

import jax.numpy as jnp

from adamqlr.jax import Categorical, Fisher
from qlrstudy.data.text import common_words, load_treebank
from qlrstudy.models import GPT2, hits, plain
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, LogUniform, Task
from qlrstudy.tasks.sampling import Windows

_VOCABULARY, _COMMON = 10_000, 2_000

_load = partial(load_treebank, vocabulary=_VOCABULARY)


def _load_few(options: DataOptions) -> Dataset:
    """Enough for three steps of the paper's batch; all else is the paper's."""
    data = _load(options, limit=(3 * 30 * 70 + 1, 30 * 70 + 1))
    said = ("a dry run on the first 6,300 words", data.incomplete)
    return dataclasses.replace(data, incomplete="; ".join(filter(None, said)))


_NETWORK = plain(GPT2(_VOCABULARY), (2,), jnp.int32)
_NARROW = plain(GPT2(_COMMON, width=64, depth=2, heads=4, context=128), (2,), jnp.int32)

_PAPER = Task(
    name="penn-treebank",
    title="Penn Treebank",
    scale="paper",
    budget=Budget("epochs", 100),
    load=_load,
    examples=929_588,
    init=_NETWORK.init,
    predict=_NETWORK.predict,
    likelihood=Categorical(),
    curvature=Fisher(),
    sampling=Windows(),
    evaluation_shape=BatchShape(30, 70),
    adam_batch=BatchShape(30, 70),
    qlr_batch=BatchShape(30, 70),
    batch_sizes=(5, 10, 20, 35, 50, 100, 200),
    sequence_lengths=tuple(range(10, 101, 10)),
    accuracy=hits,
    # The paper's code has this range here, for SGD and Adam alike.
    search={"learning_rate": LogUniform(1e-4, 1e2)},
)

# On two cores the paper's model takes hours to evaluate on all words, before its first
# step; `dry` shows that a step of it works, and what it costs.
SCALES = {
    "paper": _PAPER,
    "dry": dataclasses.replace(
        _PAPER,
        scale="dry",
        budget=Budget("steps", 3),
        load=_load_few,
        examples=6_300,
    ),
    "laptop": dataclasses.replace(
        _PAPER,
        scale="laptop",
        budget=Budget("epochs", 4),
        load=partial(
            load_treebank,
            vocabulary=_COMMON,
            symbols=partial(common_words, count=_COMMON),
            limit=(50_001, 10_001),
        ),
        examples=50_000,
        init=_NARROW.init,
        predict=_NARROW.predict,
        evaluation_shape=BatchShape(20, 50),
        adam_batch=BatchShape(10, 50),
        qlr_batch=BatchShape(10, 50),
        evaluations=10,
    ),
}
