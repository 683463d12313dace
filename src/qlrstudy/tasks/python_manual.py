"""Python's reference manual, which every Python has: the next word, by a small GPT-2.

The text is that of the Python at hand, so that runs of two versions have other data,
and are told apart by its sum.
"""

import jax.numpy as jnp

from adamqlr.jax import Categorical, Fisher
from qlrstudy.data.bundled import bundled_text, python_manual
from qlrstudy.models import GPT2, hits, plain
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Task
from qlrstudy.tasks.sampling import Windows

_WORDS = 1_000


def _load(options: DataOptions) -> Dataset:
    del options
    text = python_manual()
    return bundled_text("python/manual", text, text.split(), vocabulary=_WORDS)


_NETWORK = plain(GPT2(_WORDS, width=32, depth=1, heads=2, context=64), (2,), jnp.int32)

SCALES = {
    "paper": Task(
        name="python-manual",
        title="Python manual",
        scale="paper",
        budget=Budget("epochs", 2),
        load=_load,
        examples=52_400,
        init=_NETWORK.init,
        predict=_NETWORK.predict,
        likelihood=Categorical(),
        curvature=Fisher(),
        sampling=Windows(),
        evaluation_shape=BatchShape(20, 48),
        adam_batch=BatchShape(10, 24),
        qlr_batch=BatchShape(10, 24),
        batch_sizes=(5, 10, 20, 35, 50, 100, 200),
        sequence_lengths=tuple(range(12, 61, 12)),
        accuracy=hits,
        evaluations=10,
    )
}
