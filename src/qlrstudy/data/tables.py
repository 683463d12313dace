"""Regression from tables whose last column is the target."""

import numpy as np

from qlrstudy.data.errors import DataError
from qlrstudy.data.registry import DataSet
from qlrstudy.data.sets import read_set
from qlrstudy.data.splits import Standardiser, hold_out
from qlrstudy.spec import DataOptions, Dataset, Split


def load_table(
    data_set: DataSet, kept: int, validation: float, options: DataOptions
) -> Dataset:
    """Put a UCI table's rows in the paper's order, cut and normalise them.

    Args:
        data_set: with `data.txt` and `permutation_indices.txt`.
        kept: rows for training and validation, from the first; the rest is the test's.
        validation: fraction of the kept rows, chosen at random.
        options: where data may come from.
    """
    reading = read_set(data_set, options)
    table = reading.contents["data.txt"]
    order = reading.contents["permutation_indices.txt"].ravel().astype(int)
    if len(table) <= kept or not np.array_equal(np.sort(order), np.arange(len(table))):
        raise DataError(
            f"{data_set.folder}: permutation_indices.txt does not order the "
            f"{len(table):,} rows of data.txt, or no more than {kept:,} are there: "
            f"get both with `qlrstudy data fetch {data_set.name}`"
        )
    rows = table[order]
    columns = Standardiser(rows[:kept])(rows)
    everything = Split(columns[:, :-1], columns[:, -1:])
    train, held = hold_out(kept, validation)
    pick = lambda chosen: Split(*(part[chosen] for part in everything))
    return Dataset(
        pick(train),
        pick(held),
        pick(slice(kept, None)),
        reading.sources,
        reading.incomplete,
    )
