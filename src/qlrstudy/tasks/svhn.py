"""SVHN: digits cut out of photographs of house numbers."""

import dataclasses
from functools import partial

from adamqlr.jax import Categorical, Fisher
from qlrstudy.data import read_set
from qlrstudy.data.images import images_dataset
from qlrstudy.data.registry import SVHN
from qlrstudy.models import ResNet, batch_normed, hits
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Task
from qlrstudy.tasks.sampling import Examples


def _load(
    options: DataOptions, limit: tuple[int | None, int | None] = (None, None)
) -> Dataset:
    reading = read_set(SVHN, options)
    return images_dataset(
        reading.contents["train_32x32.mat"],
        reading.contents["test_32x32.mat"],
        reading,
        validation=1 / 6,
        limit=limit,
    )


def _load_few(options: DataOptions) -> Dataset:
    data = _load(options, limit=(1_000, 200))
    said = ("a dry run on the first 1,000 images", data.incomplete)
    return dataclasses.replace(data, incomplete="; ".join(filter(None, said)))


_NETWORK = batch_normed(ResNet(), (32, 32, 3))
_NARROW = batch_normed(ResNet(width=8, blocks=(1, 1, 1)), (32, 32, 3))
_LAYERS, _NARROW_LAYERS = (
    batch_normed(network, (32, 32, 3)).predict
    for network in (
        ResNet(products=False),
        ResNet(width=8, blocks=(1, 1, 1), products=False),
    )
)

_PAPER = Task(
    name="svhn",
    title="SVHN",
    scale="paper",
    budget=Budget("epochs", 10),
    load=_load,
    examples=61_047,
    init=_NETWORK.init,
    predict=_NETWORK.predict,
    likelihood=Categorical(),
    curvature=Fisher(),
    sampling=Examples(),
    evaluation_shape=BatchShape(500),
    adam_batch=BatchShape(256),
    accuracy=hits,
    # Of every split, and at this size each takes as long as half an epoch's steps.
    evaluations=5,
    convolutional=True,
    layered=_LAYERS,
)

# `dry` shows, without a day's wait on two cores, that steps of the paper's model and
# batch work, and what they cost.
SCALES = {
    "paper": _PAPER,
    "dry": dataclasses.replace(
        _PAPER,
        scale="dry",
        budget=Budget("steps", 3),
        load=_load_few,
        examples=833,
    ),
    "laptop": dataclasses.replace(
        _PAPER,
        scale="laptop",
        budget=Budget("epochs", 5),
        load=partial(_load, limit=(6_000, 1_000)),
        examples=5_000,
        init=_NARROW.init,
        predict=_NARROW.predict,
        layered=_NARROW_LAYERS,
        adam_batch=BatchShape(64),
        qlr_batch=BatchShape(400),
        evaluations=10,
    ),
}
