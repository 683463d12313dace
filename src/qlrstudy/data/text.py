"""Predicting the next symbol of a text: a word, or a character."""

from collections import Counter
from collections.abc import Callable

import numpy as np

from qlrstudy.data.errors import DataError
from qlrstudy.data.files import Reading
from qlrstudy.data.registry import PENN_TREEBANK
from qlrstudy.data.sets import read_set
from qlrstudy.spec import DataOptions, Dataset, Split

UNKNOWN = "<unk>"

Words = list[str]


def load_treebank(
    options: DataOptions,
    vocabulary: int,
    symbols: Callable[[Words, Words], Words] = lambda words, train: words,
    limit: tuple[int | None, int | None] = (None, None),
) -> Dataset:
    """Read Penn Treebank's three texts.

    Args:
        options: where they may come from.
        vocabulary: see `text_dataset`, as `limit`.
        symbols: makes of a text's words, and those of the training text, what is to
            be predicted.
        limit: how many symbols to take.
    """
    reading = read_set(PENN_TREEBANK, options)
    parts = [reading.contents[f"ptb.{name}.txt"] for name in ("train", "valid", "test")]
    train, validation, test = (symbols(words, parts[0]) for words in parts)
    return text_dataset(
        train, validation, test, reading, vocabulary=vocabulary, limit=limit
    )


def text_dataset(
    train: Words,
    validation: Words,
    test: Words,
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

    def split(symbols: Words, count: int | None) -> Split:
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


def common_words(words: Words, train: Words, count: int) -> Words:
    """Words with all but the training text's `count` most common ones unknown."""
    kept = {word for word, _ in Counter(train).most_common(count)}
    return [word if word in kept else UNKNOWN for word in words]


def characters(words: Words) -> Words:
    """The letters of words and the spaces between; an unknown word is one symbol."""
    symbols: Words = []
    for word in words:
        symbols += [word] if word in (UNKNOWN, "<eos>") else word
        symbols.append(" ")
    return symbols
