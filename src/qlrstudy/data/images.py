"""Classification of images."""

import numpy as np

from qlrstudy.data.errors import DataError
from qlrstudy.data.files import Reading
from qlrstudy.data.formats import Labelled
from qlrstudy.data.splits import Standardiser, hold_out
from qlrstudy.spec import Dataset, Split


def images_dataset(
    train: Labelled,
    test: Labelled,
    reading: Reading,
    *,
    validation: float,
    limit: tuple[int | None, int | None] = (None, None),
) -> Dataset:
    """Cut and normalise images: per channel, or per pixel where they are flat.

    Args:
        train: what is published for training, with channels (or pixels) last.
        test: what is published for testing.
        reading: where both came from.
        validation: fraction of the training images, chosen at random.
        limit: how many images to take of each, from the first; `None` for all.
    """
    kept, shown = (
        _first(part, count) for part, count in zip((train, test), limit, strict=True)
    )
    scale = Standardiser(kept.images)
    fitted, held = hold_out(len(kept.labels), validation)
    # Chosen before they are scaled: float32 copies of bytes are four times as large.
    pick = lambda part, chosen: Split(scale(part.images[chosen]), part.labels[chosen])
    return Dataset(
        pick(kept, fitted),
        pick(kept, held),
        pick(shown, slice(None)),
        reading.sources,
        reading.incomplete,
    )


def _first(part: Labelled, count: int | None) -> Labelled:
    images, labels = part
    if len(images) != len(labels):
        raise DataError(
            f"there are {len(images):,} images and {len(labels):,} labels: the files "
            "do not belong together; `qlrstudy data verify` says which to replace"
        )
    return Labelled(images[:count], np.asarray(labels[:count], np.int32))
