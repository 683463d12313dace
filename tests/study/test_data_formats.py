"""Parsers on small files made here, whole and broken."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from qlrstudy.data import formats


def _idx(path: Path, values: np.ndarray) -> Path:
    header = bytes([0, 0, 8, values.ndim]) + struct.pack(
        f">{values.ndim}I", *values.shape
    )
    path.write_bytes(gzip.compress(header + values.tobytes()))
    return path


def test_idx_keeps_shape_and_values(tmp_path):
    values = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    np.testing.assert_array_equal(
        formats.read_idx(_idx(tmp_path / "a.gz", values)), values
    )


def test_idx_with_fewer_values_than_promised_is_refused(tmp_path):
    content = b"\0\0\x08\x01" + struct.pack(">I", 5) + b"abc"
    (tmp_path / "a.gz").write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match=r"promises \(5,\) values, it holds 3"):
        formats.read_idx(tmp_path / "a.gz")


def test_idx_of_another_type_is_refused(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"\0\0\x0d\x01" + bytes(8)))
    with pytest.raises(ValueError, match="starts with 0 0 8"):
        formats.read_idx(tmp_path / "a.gz")


def test_cifar_moves_channels_last(tmp_path):
    image = np.arange(3 * 32 * 32, dtype=np.uint32).astype(np.uint8)
    record = np.concatenate([np.array([7], np.uint8), image])
    record.tofile(tmp_path / "a.bin")
    images, labels = formats.read_cifar(tmp_path / "a.bin")
    assert labels.tolist() == [7]
    channel, row, column = 2, 5, 9
    expected = image[channel * 1024 + row * 32 + column]
    assert images[0, row, column, channel] == expected


@pytest.mark.parametrize("size", [0, 3072, 2 * 3073 - 1])
def test_cifar_in_broken_records_is_refused(tmp_path, size):
    (tmp_path / "a.bin").write_bytes(bytes(size))
    with pytest.raises(ValueError, match="no whole number"):
        formats.read_cifar(tmp_path / "a.bin")


def test_cifar_label_beyond_the_classes_is_refused(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\x0a" + bytes(3072))
    with pytest.raises(ValueError, match="10 classes"):
        formats.read_cifar(tmp_path / "a.bin")


def test_svhn_makes_ten_the_digit_zero(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 4), np.uint8)
    labels = np.array([[1], [10], [9], [10]], np.uint8)
    savemat(tmp_path / "a.mat", {"X": images, "y": labels}, do_compression=True)
    read = formats.read_svhn(tmp_path / "a.mat")
    assert read.labels.tolist() == [1, 0, 9, 0]
    np.testing.assert_array_equal(read.images[2], images[..., 2])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"X": np.zeros((32, 32, 3, 2), np.uint8)}, "no arrays called X and y"),
        ({"X": np.zeros((32, 32, 3, 2)), "y": np.ones((2, 1))}, "must hold bytes"),
        (
            {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.ones((3, 1))},
            "to match y",
        ),
        (
            {"X": np.zeros((32, 32, 3, 1), np.uint8), "y": np.full((1, 1), 11)},
            "10 classes",
        ),
        ({"X": np.array([{"a": 1}], object), "y": np.ones((1, 1))}, "must hold bytes"),
    ],
    ids=["no labels", "floats", "counts differ", "label 11", "objects"],
)
def test_svhn_that_is_not_images_and_labels_is_refused(tmp_path, content, problem):
    savemat(tmp_path / "a.mat", content)
    with pytest.raises(ValueError, match=problem):
        formats.read_svhn(tmp_path / "a.mat")


def test_each_line_of_words_ends_with_eos(tmp_path):
    (tmp_path / "a.txt").write_text(" the cat \n sat <unk> \n")
    words = formats.read_words(tmp_path / "a.txt")
    assert words == ["the", "cat", "<eos>", "sat", "<unk>", "<eos>"]


def test_table_takes_tabs_spaces_and_a_last_empty_line(tmp_path):
    (tmp_path / "a.txt").write_text("1\t2.5\n3 4e-1\n\n")
    table = formats.read_table(tmp_path / "a.txt")
    np.testing.assert_array_equal(table, [[1, 2.5], [3, 0.4]])


@pytest.mark.parametrize(
    "text", ["", "1 2\n3\n", "1 x\n", "1 nan\n"], ids=["none", "ragged", "word", "nan"]
)
def test_table_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(ValueError):
        formats.read_table(tmp_path / "a.txt")


def test_empty_text_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(ValueError, match="empty"):
        formats.read_words(tmp_path / "a.txt")
