"""Normalisation and splits against slow, obvious answers."""

import numpy as np
import pytest

from qlrstudy.data import DataError
from qlrstudy.data.files import Reading
from qlrstudy.data.formats import Labelled
from qlrstudy.data.images import images_dataset
from qlrstudy.data.splits import Standardiser, hold_out
from qlrstudy.data.text import characters, common_words, text_dataset

NOTHING = Reading({}, (), None)


@pytest.mark.parametrize("shape", [(2500, 7), (1300, 4, 5, 3), (1, 2)])
def test_scale_is_numpys_mean_and_deviation(shape):
    values = np.random.default_rng(0).normal(1e3, 2, shape)
    axes = tuple(range(values.ndim - 1))
    scale = Standardiser(values)
    np.testing.assert_allclose(scale.mean, values.mean(axes), rtol=1e-12)
    expected = values.std(axes)
    expected[expected == 0] = 1
    np.testing.assert_allclose(scale.deviation, expected, rtol=1e-9)


def test_scaled_bytes_have_mean_zero_and_deviation_one():
    values = np.random.default_rng(0).integers(0, 256, (3000, 2, 2, 3), np.uint8)
    scaled = Standardiser(values)(values)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled.mean((0, 1, 2), dtype=float), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std((0, 1, 2), dtype=float), 1, atol=1e-6)


def test_constant_column_is_only_moved():
    values = np.array([[3.0, 1.0], [3.0, 2.0]])
    np.testing.assert_array_equal(Standardiser(values)(values), [[0, -1], [0, 1]])


@pytest.mark.parametrize(
    ("count", "fraction", "held"),
    [(692, 0.15, 104), (60_000, 1 / 6, 10_000), (50_000, 0.1, 5_000)],
)
def test_hold_out_parts_all_examples(count, fraction, held):
    train, validation = hold_out(count, fraction)
    assert len(validation) == held
    both = np.concatenate([train, validation])
    np.testing.assert_array_equal(np.sort(both), np.arange(count))


def test_hold_out_is_random_and_always_the_same():
    _, validation = hold_out(1000, 0.5)
    np.testing.assert_array_equal(validation, hold_out(1000, 0.5)[1])
    # Half of each half, give or take four deviations of a binomial.
    assert abs(np.sum(validation < 500) - 250) < 4 * np.sqrt(1000) / 4


def _labelled(count: int) -> Labelled:
    images = np.random.default_rng(count).integers(0, 256, (count, 4, 4, 3), np.uint8)
    return Labelled(images, np.arange(count) % 10)


def test_test_images_are_scaled_as_the_training_ones():
    train, test = _labelled(60), _labelled(20)
    data = images_dataset(train, test, NOTHING, validation=1 / 6)
    mean, deviation = train.images.mean((0, 1, 2)), train.images.std((0, 1, 2))
    expected = (test.images - mean) / deviation
    np.testing.assert_allclose(data.test.inputs, expected, rtol=1e-5, atol=1e-6)
    assert [len(s.targets) for s in (data.train, data.validation)] == [50, 10]


def test_limit_takes_the_first():
    train, test = _labelled(60), _labelled(20)
    data = images_dataset(train, test, NOTHING, validation=0.5, limit=(30, 5))
    assert len(data.train.targets) == len(data.validation.targets) == 15
    np.testing.assert_array_equal(data.test.targets, test.labels[:5])


def test_images_without_labels_of_their_own_are_refused():
    short = Labelled(_labelled(60).images, np.arange(59))
    with pytest.raises(DataError, match="60 images and 59 labels"):
        images_dataset(short, _labelled(20), NOTHING, validation=0.5)


def test_words_are_numbered_as_they_appear_and_targets_come_next():
    train = ["a", "<unk>", "b", "a", "<eos>"]
    data = text_dataset(train, ["b", "a"], ["c", "a"], NOTHING, vocabulary=4)
    assert data.train.inputs.tolist() == [0, 1, 2, 0]
    assert data.train.targets.tolist() == [1, 2, 0, 3]
    assert data.validation.inputs.tolist() == [2]
    assert data.test.inputs.tolist() == [1]


def test_rare_words_become_unknown():
    train = ["a", "b", "a", "<unk>", "<unk>", "c"]
    assert common_words(["c", "a", "d"], train, 2) == ["<unk>", "a", "<unk>"]


def test_words_are_spelt_with_spaces_between():
    spelt = characters(["is", "<unk>", "<eos>"])
    assert spelt == ["i", "s", " ", "<unk>", " ", "<eos>", " "]


@pytest.mark.parametrize("words", [["a", "b"], ["<unk>", "a", "b", "c"]])
def test_text_with_another_vocabulary_is_refused(words):
    with pytest.raises(DataError, match="different words"):
        text_dataset(words, words, words, NOTHING, vocabulary=3)
