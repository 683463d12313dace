"""Data that scikit-learn ships, cut and normalised like all others."""

import hashlib

import numpy as np
from numpy.typing import ArrayLike

from qlrstudy.data.splits import Standardiser, hold_out
from qlrstudy.spec import Dataset, SourceFile, Split

_TEST, _VALIDATION = 0.2, 0.15


def bundled_dataset(
    name: str, inputs: ArrayLike, targets: ArrayLike, *, regression: bool
) -> Dataset:
    """Hold a fifth out for testing and 15 % of the rest for validation.

    Args:
        name: of the data, for the record of what was read.
        inputs: as scikit-learn's loaders return them, examples on the first axis.
        targets: likewise, one for each example.
        regression: whether the targets are numbers, to be normalised as the inputs
            are, and not classes.
    """
    inputs, targets = np.asarray(inputs), np.asarray(targets)
    kept, test = hold_out(len(inputs), _TEST)
    train, validation = (kept[part] for part in hold_out(len(kept), _VALIDATION))
    values = Standardiser(inputs[kept])(inputs)
    if regression:
        answers = Standardiser(targets[kept, None])(targets[:, None])
    else:
        answers = targets.astype(np.int32)
    content = inputs.tobytes() + targets.tobytes()
    source = SourceFile(
        f"scikit-learn/{name}",
        hashlib.sha256(content).hexdigest(),
        len(content),
        len(inputs),
    )
    splits = [Split(values[p], answers[p]) for p in (train, validation, test)]
    return Dataset(*splits, sources=(source,))
