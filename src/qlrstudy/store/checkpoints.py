"""Where to take a run up again: its state, and how much of its files counts."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from qlrstudy.store import files
from qlrstudy.store.files import BROKEN, DamagedError, Extent

if TYPE_CHECKING:
    import numpy as np


class Checkpoint(NamedTuple):
    """Where to take a run up again."""

    step: int
    training_seconds: float
    compile_seconds: float
    leaves: list[np.ndarray]


def write(path: Path, checkpoint: Checkpoint, extents: Sequence[Extent]) -> None:
    """Replace a checkpoint, with the extents of what else the run has written."""
    import numpy as np

    leaves = {f"leaf_{i:04}": leaf for i, leaf in enumerate(checkpoint.leaves)}
    with files.replacing(path) as file:
        np.savez(
            file,
            step=checkpoint.step,
            training_seconds=checkpoint.training_seconds,
            compile_seconds=checkpoint.compile_seconds,
            extents=extents,
            **leaves,  # pyright: ignore[reportArgumentType] - arrays by name
        )


def read(path: Path) -> tuple[Checkpoint, list[Extent]]:
    """A checkpoint, and the extents that were written with it.

    Raises:
        DamagedError: it cannot be read.
    """
    import numpy as np

    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            names = sorted(name for name in file.files if name.startswith("leaf_"))
            checkpoint = Checkpoint(
                int(file["step"]),
                float(file["training_seconds"]),
                float(file["compile_seconds"]),
                [file[name] for name in names],
            )
            return checkpoint, [Extent(*map(int, row)) for row in file["extents"]]
    # NumPy and zipfile fail in many ways, some with the advice to unpickle.
    except (*BROKEN, zipfile.BadZipFile, zlib.error) as error:
        raise DamagedError(path, f"is damaged ({type(error).__name__})") from error
