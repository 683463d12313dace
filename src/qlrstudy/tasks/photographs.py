"""Photographs of 32 x 32 pixels, by a ResNet-18, as the paper trains it on two sets."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from jaxtyping import Array, PRNGKeyArray

from adamqlr.jax import Categorical, Fisher
from qlrstudy.data.files import Reading
from qlrstudy.data.formats import Labelled
from qlrstudy.data.images import images_dataset
from qlrstudy.models import Network, ResNet, batch_normed, hits
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Task
from qlrstudy.tasks.sampling import Examples


class Photographs(NamedTuple):
    """A set of ten classes as it is published.

    Attributes:
        train: for training, of which some are held out.
        test: for testing.
        reading: where both came from.
    """

    train: Labelled
    test: Labelled
    reading: Reading


def _networks(resnet: ResNet) -> tuple[Network, Network]:
    """A network, and the same with each layer one operation."""
    network, layered = (
        batch_normed(module, (32, 32, 3))
        for module in (resnet, resnet.clone(direct=True))
    )
    return network, layered


def scales(
    name: str,
    title: str,
    read: Callable[[DataOptions], Photographs],
    *,
    images: int,
    validation: float,
    epochs: int,
    adam_batch: int,
    evaluations: int,
    augment: Callable[[PRNGKeyArray, Array], Array] | None = None,
) -> dict[str, Task]:
    """The paper's task, and two that two cores have the patience for.

    Args:
        name: on the command line.
        title: for readers.
        read: the published files.
        images: how many are published for training.
        validation: fraction of them that is held out.
        epochs: of the paper.
        adam_batch: of the paper's untuned Adam.
        evaluations: in a run; each takes as long as half an epoch's steps.
        augment: what training makes of a batch's images.
    """

    def load(
        options: DataOptions, limit: tuple[int | None, int | None] = (None, None)
    ) -> Dataset:
        return images_dataset(*read(options), validation=validation, limit=limit)

    def load_few(options: DataOptions) -> Dataset:
        data = load(options, limit=(1_000, 200))
        said = ("a dry run on the first 1,000 images", data.incomplete)
        return dataclasses.replace(data, incomplete="; ".join(filter(None, said)))

    fitted = lambda count: count - round(count * validation)
    network, layered = _networks(ResNet())
    paper = Task(
        name=name,
        title=title,
        scale="paper",
        budget=Budget("epochs", epochs),
        load=load,
        examples=fitted(images),
        init=network.init,
        predict=network.predict,
        likelihood=Categorical(),
        curvature=Fisher(),
        sampling=Examples(),
        evaluation_shape=BatchShape(500),
        adam_batch=BatchShape(adam_batch),
        accuracy=hits,
        augment=augment,
        evaluations=evaluations,
        convolutional=True,
        layered=layered.predict,
    )
    # Shows, without a day's wait on two cores, that steps of the paper's model and
    # batch work, and what they cost.
    dry = dataclasses.replace(
        paper,
        scale="dry",
        budget=Budget("steps", 3),
        load=load_few,
        examples=fitted(1_000),
    )
    network, layered = _networks(ResNet(width=8, blocks=(1, 1, 1)))
    laptop = dataclasses.replace(
        paper,
        scale="laptop",
        budget=Budget("epochs", 5),
        load=partial(load, limit=(6_000, 1_000)),
        examples=fitted(6_000),
        init=network.init,
        predict=network.predict,
        layered=layered.predict,
        adam_batch=BatchShape(64),
        qlr_batch=BatchShape(400),
        evaluations=10,
    )
    return {"paper": paper, "dry": dry, "laptop": laptop}
