"""Readers of the publishers' own formats: bytes on disk to arrays, nothing else.

Each takes a path and raises `ValueError` with what is wrong with the content; naming
the file and its cure is `files.examine`'s work. None of them can run code that a file
brings along, as pickle would.
"""

import gzip
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8


class Labelled(NamedTuple):
    """Images with the channels last, and a class from 0 for each."""

    images: UInt8[np.ndarray, "examples height width channels"]
    labels: Int[np.ndarray, " examples"]


def read_idx(path: Path) -> UInt8[np.ndarray, "..."]:
    """Read a gzipped idx file of bytes (MNIST's format).

    Two zero bytes, the type (8 for bytes), the number of axes, each axis's length as
    a big-endian integer of four bytes, then the values in C order.
    """
    with gzip.open(path) as stream:
        content = stream.read()
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"an idx file of bytes starts with 0 0 8, not {content[:3]!r}")
    axes = content[3]
    start = 4 + 4 * axes
    shape = struct.unpack_from(f">{axes}I", content, 4)
    values = np.frombuffer(content, np.uint8, offset=start)
    if len(values) != np.prod(shape, dtype=np.int64):
        raise ValueError(f"its header promises {shape} values, it holds {len(values)}")
    return values.reshape(shape)


def read_cifar(path: Path) -> Labelled:
    """Read one batch of CIFAR-10's binary version.

    A record is one byte of label and 3,072 bytes of image: channel, row, column.
    """
    content = np.fromfile(path, np.uint8)
    if len(content) == 0 or len(content) % 3073:
        raise ValueError(f"{len(content)} bytes are no whole number of 3,073-byte rows")
    records = content.reshape(-1, 3073)
    labels = records[:, 0].astype(np.int32)
    _check_classes(labels, 10)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return Labelled(images, labels)


def read_svhn(path: Path) -> Labelled:
    """Read one of SVHN's MATLAB files: `X` 32 x 32 x 3 x examples, `y` from 1 to 10.

    The publisher's class 10 is the digit 0, and becomes class 0.
    """
    # Imported here: scipy.io takes as long as the rest of this package together.
    from scipy.io import loadmat

    content = loadmat(path, variable_names=("X", "y"))
    if not {"X", "y"} <= content.keys():
        raise ValueError("it holds no arrays called X and y")
    images, labels = content["X"], content["y"].ravel()
    if images.dtype != np.uint8 or images.shape != (32, 32, 3, len(labels)):
        raise ValueError(
            f"X must hold bytes of shape (32, 32, 3, {len(labels)}) to match y, "
            f"got {images.dtype} of shape {images.shape}"
        )
    labels = np.where(labels == 10, 0, labels).astype(np.int32)
    _check_classes(labels, 10)
    return Labelled(np.ascontiguousarray(images.transpose(3, 0, 1, 2)), labels)


def read_words(path: Path) -> list[str]:
    """Read a text of words parted by spaces; each line ends with a word `<eos>`."""
    with path.open(encoding="utf-8") as lines:
        words = [word for line in lines for word in (*line.split(), "<eos>")]
    if not words:
        raise ValueError("it is empty")
    return words


def read_table(path: Path) -> Float[np.ndarray, "rows columns"]:
    """Read rows of numbers parted by spaces or tabs; empty lines do not count."""
    # loadtxt warns about a file without rows, and says nothing about NaN.
    if path.stat().st_size == 0:
        raise ValueError("it is empty")
    table = np.loadtxt(path, dtype=np.float64, ndmin=2)
    if not np.isfinite(table).all():
        raise ValueError("it holds values that are not finite")
    return table


def _check_classes(labels: Int[np.ndarray, " examples"], classes: int) -> None:
    if len(labels) == 0 or labels.min() < 0 or labels.max() >= classes:
        raise ValueError(f"its labels are not all among {classes} classes")
