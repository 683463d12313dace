"""CIFAR-10: ten kinds of things in photographs, shifted and mirrored in training."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from qlrstudy.data import read_set
from qlrstudy.data.formats import Labelled
from qlrstudy.data.registry import CIFAR_10
from qlrstudy.spec import DataOptions
from qlrstudy.tasks.photographs import Photographs, scales

_MARGIN = 4


def _read(options: DataOptions) -> Photographs:
    reading = read_set(CIFAR_10, options)
    batches = [part for path, part in reading.contents.items() if "data_batch" in path]
    train = Labelled(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))
    test = reading.contents["cifar-10-batches-bin/test_batch.bin"]
    return Photographs(train, test, reading)


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


SCALES = scales(
    "cifar-10",
    "CIFAR-10",
    _read,
    images=50_000,
    validation=0.1,
    epochs=72,
    adam_batch=128,
    evaluations=18,
    augment=shift_and_mirror,
)
