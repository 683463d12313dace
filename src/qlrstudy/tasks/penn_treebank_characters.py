"""Penn Treebank by characters: the next one of newspaper text, by a small GPT-2."""

from functools import partial

import jax.numpy as jnp

from adamqlr.jax import Categorical, Fisher
from qlrstudy.data.text import characters, load_treebank
from qlrstudy.models import GPT2, hits, plain
from qlrstudy.spec import BatchShape, Budget, Task
from qlrstudy.tasks.sampling import Windows

_SYMBOLS = 50

_NETWORK = plain(
    GPT2(_SYMBOLS, width=64, depth=2, heads=4, context=128), (2,), jnp.int32
)

SCALES = {
    "paper": Task(
        name="penn-treebank-characters",
        title="Penn Treebank (characters)",
        scale="paper",
        budget=Budget("epochs", 5),
        load=partial(
            load_treebank,
            vocabulary=_SYMBOLS,
            symbols=lambda words, train: characters(words),
            limit=(100_001, 10_001),
        ),
        examples=100_000,
        init=_NETWORK.init,
        predict=_NETWORK.predict,
        likelihood=Categorical(),
        curvature=Fisher(),
        sampling=Windows(),
        evaluation_shape=BatchShape(20, 100),
        adam_batch=BatchShape(10, 100),
        qlr_batch=BatchShape(10, 100),
        batch_sizes=(5, 10, 20, 35, 50, 100, 200),
        sequence_lengths=tuple(range(10, 101, 10)),
        accuracy=hits,
        evaluations=10,
    )
}
