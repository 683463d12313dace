"""Fashion-MNIST: ten kinds of clothes, by their pixels."""

import dataclasses
from functools import partial

from adamqlr.jax import Categorical, Fisher
from qlrstudy.data import read_set
from qlrstudy.data.formats import Labelled
from qlrstudy.data.images import images_dataset
from qlrstudy.data.registry import FASHION_MNIST
from qlrstudy.models import MLP, hits, plain
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Task
from qlrstudy.tasks.sampling import Examples


def _load(
    options: DataOptions, limit: tuple[int | None, int | None] = (None, None)
) -> Dataset:
    reading = read_set(FASHION_MNIST, options)

    def part(name: str) -> Labelled:
        images = reading.contents[f"{name}-images-idx3-ubyte.gz"]
        labels = reading.contents[f"{name}-labels-idx1-ubyte.gz"]
        return Labelled(images.reshape(len(images), -1), labels)

    return images_dataset(
        part("train"), part("t10k"), reading, validation=1 / 6, limit=limit
    )


_NETWORK = plain(MLP((50,), 10), (784,))
_NARROW = plain(MLP((16,), 10), (784,))

_PAPER = Task(
    name="fashion-mnist",
    title="Fashion-MNIST",
    scale="paper",
    budget=Budget("epochs", 10),
    load=_load,
    examples=50_000,
    init=_NETWORK.init,
    predict=_NETWORK.predict,
    likelihood=Categorical(),
    curvature=Fisher(),
    sampling=Examples(),
    evaluation_shape=BatchShape(10_000),
    evaluations=20,
    adam_batch=BatchShape(50),
    accuracy=hits,
)

SCALES = {
    "paper": _PAPER,
    "laptop": dataclasses.replace(
        _PAPER,
        scale="laptop",
        load=partial(_load, limit=(12_000, 2_000)),
        examples=10_000,
        init=_NARROW.init,
        predict=_NARROW.predict,
        qlr_batch=BatchShape(1600),
    ),
}
