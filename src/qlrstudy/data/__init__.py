"""The study's data: published files, fetched or found, checked, read, recorded."""

from qlrstudy.data.errors import DataError
from qlrstudy.data.registry import DATA_SETS, DataSet
from qlrstudy.data.sets import (
    SetStatus,
    data_root,
    fetch_sets,
    list_sets,
    read_set,
    verify_sets,
)

__all__ = [
    "DATA_SETS",
    "DataError",
    "DataSet",
    "SetStatus",
    "data_root",
    "fetch_sets",
    "list_sets",
    "read_set",
    "verify_sets",
]
