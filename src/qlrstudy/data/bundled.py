"""Data that scikit-learn and Python ship, cut and normalised like all others."""

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from qlrstudy.data.splits import Standardiser, hold_out
from qlrstudy.spec import Dataset, SourceFile, Split

_TEST, _VALIDATION = 0.2, 0.15
_TEXT_HELD = 0.1


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
    source = _source(f"scikit-learn/{name}", content, len(inputs))
    splits = [Split(values[p], answers[p]) for p in (train, validation, test)]
    return Dataset(*splits, sources=(source,))


def bundled_text(
    name: str, text: str, symbols: Sequence[str], *, vocabulary: int
) -> Dataset:
    """Number a text's symbols, and hold its last two tenths out, the last for testing.

    Args:
        name: of the text, for the record of what was read.
        text: what the symbols were made of.
        symbols: words or characters, in order.
        vocabulary: how many numbers there are: zero for what is not among the training
            part's most common symbols, and one for each of these.
    """
    held = round(_TEXT_HELD * len(symbols))
    fitted = symbols[: -2 * held]
    common = Counter(fitted).most_common(vocabulary - 1)
    ids = {symbol: number for number, (symbol, _) in enumerate(common, 1)}

    def split(part: Sequence[str]) -> Split:
        tokens = np.fromiter((ids.get(symbol, 0) for symbol in part), np.int32)
        return Split(tokens[:-1], tokens[1:])

    parts = fitted, symbols[-2 * held : -held], symbols[-held:]
    source = _source(name, text.encode(), len(symbols))
    return Dataset(*map(split, parts), sources=(source,))


def python_manual() -> str:
    """The topics of Python's `help()`, which are its reference manual, by their names.

    Each version of Python has its own.
    """
    # Imported here: half a megabyte that other commands need not load.
    from pydoc_data.topics import topics

    return "".join(topics[name] for name in sorted(topics))


def _source(name: str, content: bytes, examples: int) -> SourceFile:
    return SourceFile(name, hashlib.sha256(content).hexdigest(), len(content), examples)
