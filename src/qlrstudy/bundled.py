"""Data that scikit-learn ships, cut and normalised like all others."""

import hashlib

import numpy as np
from sklearn.utils import Bunch

from qlrstudy.data.splits import Scale, hold_out
from qlrstudy.spec import Dataset, SourceFile, Split

_TEST, _VALIDATION = 0.2, 0.15


def bundled_dataset(name: str, bunch: Bunch, *, regression: bool) -> Dataset:
    """Hold a fifth out for testing and 15 % of the rest for validation.

    Args:
        name: of the data, for the record of what was read.
        bunch: as scikit-learn's loaders return it.
        regression: whether the targets are numbers, to be normalised as the inputs
            are, and not classes.
    """
    inputs, targets = np.asarray(bunch.data), np.asarray(bunch.target)
    kept, test = hold_out(len(inputs), _TEST)
    train, validation = (kept[part] for part in hold_out(len(kept), _VALIDATION))
    values = Scale(inputs[kept])(inputs)
    if regression:
        answers = Scale(targets[kept, None])(targets[:, None])
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
