"""CIFAR-10: ten kinds of things in photographs, shifted and mirrored in training."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from adamqlr.jax import Categorical, Fisher
from qlrstudy.data import read_set
from qlrstudy.data.formats import Labelled
from qlrstudy.data.images import images_dataset
from qlrstudy.data.registry import CIFAR_10
from qlrstudy.models import ResNet, batch_normed, hits
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Task
from qlrstudy.tasks.sampling import Examples

_MARGIN = 4


def _load(
    options: DataOptions, limit: tuple[int | None, int | None] = (None, None)
) -> Dataset:
    reading = read_set(CIFAR_10, options)
    batches = [part for path, part in reading.contents.items() if "data_batch" in path]
    train = Labelled(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))
    test = reading.contents["cifar-10-batches-bin/test_batch.bin"]
    return images_dataset(train, test, reading, validation=0.1, limit=limit)


def shift_and_mirror(
    key: PRNGKeyArray, images: Float[Array, "batch height width channels"]
) -> Float[Array, "batch height width channels"]:
    """Pad each image with four pixels, crop it back at random, mirror every second.

    The images are normalised, so that the padding has their mean colour.
    """
    place, mirror = jax.random.split(key)
    sides = ((0, 0), (_MARGIN, _MARGIN), (_MARGIN, _MARGIN), (0, 0))
    corners = jax.random.randint(place, (len(images), 2), 0, 2 * _MARGIN + 1)
    crop = lambda image, corner: jax.lax.dynamic_slice(
        image, (*corner, 0), images.shape[1:]
    )
    moved = jax.vmap(crop)(jnp.pad(images, sides), corners)
    mirrored = jax.random.bernoulli(mirror, shape=(len(images),))
    return jnp.where(mirrored[:, None, None, None], jnp.flip(moved, axis=2), moved)


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
    name="cifar-10",
    title="CIFAR-10",
    scale="paper",
    budget=Budget("epochs", 72),
    load=_load,
    examples=45_000,
    init=_NETWORK.init,
    predict=_NETWORK.predict,
    likelihood=Categorical(),
    curvature=Fisher(),
    sampling=Examples(),
    evaluation_shape=BatchShape(500),
    adam_batch=BatchShape(128),
    accuracy=hits,
    augment=shift_and_mirror,
    # Of every split, and at this size each takes as long as half an epoch's steps.
    evaluations=18,
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
        examples=900,
    ),
    "laptop": dataclasses.replace(
        _PAPER,
        scale="laptop",
        budget=Budget("epochs", 5),
        load=partial(_load, limit=(6_000, 1_000)),
        examples=5_400,
        init=_NARROW.init,
        predict=_NARROW.predict,
        layered=_NARROW_LAYERS,
        adam_batch=BatchShape(64),
        qlr_batch=BatchShape(400),
        evaluations=10,
    ),
}
