"""SVHN in grey, 16 x 16 pixels: house numbers for a network without convolutions."""

import numpy as np

from adamqlr.jax import Categorical, Fisher
from qlrstudy.data import read_set
from qlrstudy.data.formats import Labelled
from qlrstudy.data.images import images_dataset
from qlrstudy.data.registry import SVHN
from qlrstudy.models import MLP, hits, plain
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Task
from qlrstudy.tasks.sampling import Examples

_LIMIT = (6_000, 1_000)


def _load(options: DataOptions) -> Dataset:
    reading = read_set(SVHN, options)
    train, test = (
        _grey(reading.contents[f"{name}_32x32.mat"], count)
        for name, count in zip(("train", "test"), _LIMIT, strict=True)
    )
    return images_dataset(train, test, reading, validation=1 / 6)


def _grey(part: Labelled, count: int) -> Labelled:
    """The first images, each 2 x 2 pixels and their colours one mean."""
    images = np.asarray(part.images[:count], np.float32)
    blocks = images.reshape(len(images), 16, 2, 16, 2, 3)
    return Labelled(
        blocks.mean((2, 4, 5)).reshape(len(images), -1), part.labels[:count]
    )


_NETWORK = plain(MLP((64, 32), 10), (256,))

SCALES = {
    "paper": Task(
        name="svhn-grey",
        title="SVHN (grey)",
        scale="paper",
        budget=Budget("epochs", 10),
        load=_load,
        examples=5_000,
        init=_NETWORK.init,
        predict=_NETWORK.predict,
        likelihood=Categorical(),
        curvature=Fisher(),
        sampling=Examples(),
        evaluation_shape=BatchShape(5_000),
        adam_batch=BatchShape(50),
        accuracy=hits,
        evaluations=25,
    )
}
