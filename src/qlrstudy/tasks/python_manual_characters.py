"""Python's reference manual by characters; see `python_manual`."""

import jax.numpy as jnp

from adamqlr.jax import Categorical, Fisher
from qlrstudy.data.bundled import bundled_text, python_manual
from qlrstudy.models import GPT2, hits, plain
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Task
from qlrstudy.tasks.sampling import Windows

_SYMBOLS, _LENGTH = 80, 100_000


def _load(options: DataOptions) -> Dataset:
    del options
    text = python_manual()[:_LENGTH]
    return bundled_text("python/manual", text, list(text), vocabulary=_SYMBOLS)


_NETWORK = plain(
    GPT2(_SYMBOLS, width=32, depth=2, heads=4, context=64), (2,), jnp.int32
)

SCALES = {
    "paper": Task(
        name="python-manual-characters",
        title="Python manual (characters)",
        scale="paper",
        budget=Budget("epochs", 2),
        load=_load,
        examples=79_999,
        init=_NETWORK.init,
        predict=_NETWORK.predict,
        likelihood=Categorical(),
        curvature=Fisher(),
        sampling=Windows(),
        evaluation_shape=BatchShape(20, 50),
        adam_batch=BatchShape(10, 50),
        qlr_batch=BatchShape(10, 50),
        batch_sizes=(5, 10, 20, 35, 50, 100, 200),
        sequence_lengths=tuple(range(10, 61, 10)),
        accuracy=hits,
        evaluations=10,
    )
}
