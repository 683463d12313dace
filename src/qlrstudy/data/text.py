"""Predicting the next word of a text."""

import numpy as np

from qlrstudy.data.errors import DataError
from qlrstudy.data.files import Reading
from qlrstudy.spec import Dataset, Split


def text_dataset(
    train: list[str],
    validation: list[str],
    test: list[str],
    reading: Reading,
    *,
    vocabulary: int,
    limit: tuple[int | None, int | None] = (None, None),
) -> Dataset:
    """Number the words in the order of their first appearance in the training text.

    Args:
        train: words.
        validation: words.
        test: words.
        reading: where they came from.
        vocabulary: most different words that the model can take.
        limit: how many words to take for training and for each of the other two, from
            the first; `None` for all. The vocabulary is that of the whole.
    """
    ids = {word: number for number, word in enumerate(dict.fromkeys(train))}
    if len(ids) > vocabulary or "<unk>" not in ids:
        raise DataError(
            f"the training text has {len(ids):,} different words, where {vocabulary:,} "
            "with <unk> among them are expected: it is not the preprocessed text; "
            "`qlrstudy data fetch penn-treebank` gets it"
        )

    def split(words: list[str], count: int | None) -> Split:
        numbers = (ids.get(word, ids["<unk>"]) for word in words[:count])
        tokens = np.fromiter(numbers, np.int32)
        return Split(tokens[:-1], tokens[1:])

    return Dataset(
        split(train, limit[0]),
        split(validation, limit[1]),
        split(test, limit[1]),
        reading.sources,
        reading.incomplete,
    )
