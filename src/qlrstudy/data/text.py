"""Predicting the next symbol of a text: a word, or a character."""

from collections import Counter

import numpy as np

from qlrstudy.data.errors import DataError
from qlrstudy.data.files import Reading
from qlrstudy.spec import Dataset, Split

UNKNOWN = "<unk>"


def text_dataset(
    train: list[str],
    validation: list[str],
    test: list[str],
    reading: Reading,
    *,
    vocabulary: int,
    limit: tuple[int | None, int | None] = (None, None),
) -> Dataset:
    """Number the symbols in the order of their first appearance in the training text.

    Args:
        train: symbols.
        validation: symbols; those that the training text lacks are `<unk>`.
        test: likewise.
        reading: where they came from.
        vocabulary: most different symbols that the model can take.
        limit: how many symbols to take for training and for each of the other two,
            from the first; `None` for all. The vocabulary is that of the whole.
    """
    ids = {symbol: number for number, symbol in enumerate(dict.fromkeys(train))}
    if len(ids) > vocabulary or UNKNOWN not in ids:
        raise DataError(
            f"the training text has {len(ids):,} different words, where {vocabulary:,} "
            f"with {UNKNOWN} among them are expected: it is not the preprocessed text; "
            "`qlrstudy data fetch penn-treebank` gets it"
        )

    def split(symbols: list[str], count: int | None) -> Split:
        numbers = (ids.get(symbol, ids[UNKNOWN]) for symbol in symbols[:count])
        tokens = np.fromiter(numbers, np.int32)
        return Split(tokens[:-1], tokens[1:])

    return Dataset(
        split(train, limit[0]),
        split(validation, limit[1]),
        split(test, limit[1]),
        reading.sources,
        reading.incomplete,
    )


def common_words(words: list[str], train: list[str], count: int) -> list[str]:
    """Words with all but the training text's `count` most common ones unknown."""
    kept = {word for word, _ in Counter(train).most_common(count)}
    return [word if word in kept else UNKNOWN for word in words]


def characters(words: list[str]) -> list[str]:
    """The letters of words and the spaces between; an unknown word is one symbol."""
    symbols: list[str] = []
    for word in words:
        symbols += [word] if word in (UNKNOWN, "<eos>") else word
        symbols.append(" ")
    return symbols
