"""The tasks that need data, on the publishers' files, and those that bring theirs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qlrstudy.data import DataError, bundled
from qlrstudy.spec import BatchShape, Task
from qlrstudy.tasks import (
    breast_cancer,
    cifar_10,
    fashion_mnist,
    penn_treebank,
    penn_treebank_characters,
    python_manual,
    python_manual_characters,
    svhn,
    svhn_grey,
    uci_energy,
    uci_protein,
    uci_protein_area,
    wine,
)

ROOMS = (
    uci_energy,
    uci_protein,
    fashion_mnist,
    svhn,
    cifar_10,
    penn_treebank,
    penn_treebank_characters,
    breast_cancer,
    wine,
    uci_protein_area,
    svhn_grey,
    python_manual,
    python_manual_characters,
)
TASKS = [task for room in ROOMS for task in room.SCALES.values()]
PAPER = {room.SCALES["paper"].name: room.SCALES["paper"] for room in ROOMS}


def _id(task: Task) -> str:
    return f"{task.name}-{task.scale}"


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("uci-energy", (588, 104, 76)),
        ("uci-protein", (34_983, 6_174, 4_573)),
        ("fashion-mnist", (50_000, 10_000, 10_000)),
        ("penn-treebank", (929_588, 73_759, 82_429)),
        ("breast-cancer", (387, 68, 114)),
        ("wine", (121, 21, 36)),
        ("uci-protein-area", (34_983, 6_174, 4_573)),
        ("python-manual-characters", (79_999, 9_999, 9_999)),
    ],
)
def test_complete_sets_have_the_protocols_counts(real_data, name, counts):
    data = PAPER[name].load(real_data._replace(partial=False))
    splits = (data.train, data.validation, data.test)
    assert tuple(len(split.targets) for split in splits) == counts
    assert data.incomplete is None
    assert all(len(source.sha256) == 64 for source in data.sources)


@pytest.mark.parametrize("room", [svhn, cifar_10], ids=["svhn", "cifar-10"])
def test_partial_sets_are_refused_or_marked(real_data, room):
    task = room.SCALES["laptop"]
    data = task.load(real_data)
    if data.incomplete is None:
        pytest.skip("the whole set is here")
    with pytest.raises(DataError, match="--partial-data"):
        task.load(real_data._replace(partial=False))


@pytest.mark.parametrize("name", ["uci-energy", "uci-protein-area", "fashion-mnist"])
def test_train_and_validation_together_are_normalised(real_data, name):
    data = PAPER[name].load(real_data)
    inputs = np.concatenate([data.train.inputs, data.validation.inputs])
    np.testing.assert_allclose(inputs.mean(0, dtype=float), 0, atol=1e-5)
    deviation = inputs.std(0, dtype=float)
    assert np.all((deviation == 0) | (abs(deviation - 1) < 1e-5))
    if name != "fashion-mnist":
        targets = np.concatenate([data.train.targets, data.validation.targets])
        np.testing.assert_allclose(targets.mean(dtype=float), 0, atol=1e-6)
        np.testing.assert_allclose(targets.std(dtype=float), 1, atol=1e-6)


def test_energys_test_rows_are_the_papers(real_data):
    folder = real_data.directory / "uci_energy"
    table = np.loadtxt(folder / "data.txt")
    order = np.loadtxt(folder / "permutation_indices.txt", dtype=int)
    kept, shown = table[order[:692], :8], table[order[-76:], :8]
    expected = (shown - kept.mean(0)) / kept.std(0)
    data = PAPER["uci-energy"].load(real_data)
    np.testing.assert_allclose(data.test.inputs, expected, rtol=1e-5, atol=1e-6)


def test_treebank_uses_all_its_words_and_counts_steps_as_published(real_data):
    task = PAPER["penn-treebank"]
    data = task.load(real_data)
    assert np.unique(data.train.inputs).size == 10_000
    np.testing.assert_array_equal(data.train.inputs[1:], data.train.targets[:-1])
    assert task.sampling.steps(len(data.train.inputs), task.adam_batch) == 442


def test_a_small_treebank_knows_the_common_words_only(real_data):
    small = penn_treebank.SCALES["laptop"].load(real_data)
    assert 1_500 < np.unique(small.train.inputs).size <= 2_000
    assert small.test.inputs.max() < 2_000


def test_the_treebanks_characters_are_its_words_spelt(real_data):
    data = penn_treebank_characters.SCALES["paper"].load(real_data)
    symbols = np.unique(data.train.inputs)
    assert symbols.size <= 50
    # The most common symbol parts the words.
    lengths = np.diff(
        np.flatnonzero(data.train.inputs == np.bincount(data.train.inputs).argmax())
    )
    assert 3 < lengths.mean() < 8


def test_the_area_is_no_longer_among_what_tells_it(real_data):
    whole, asked = (PAPER[f"uci-protein{end}"].load(real_data) for end in ("", "-area"))
    np.testing.assert_array_equal(asked.test.targets, whole.test.inputs[:, :1])
    np.testing.assert_array_equal(asked.test.inputs, whole.test.inputs[:, 1:])


def test_grey_images_are_the_coloured_ones_in_means_of_four_pixels(real_data):
    grey = PAPER["svhn-grey"].load(real_data).train
    coloured = svhn.SCALES["laptop"].load(real_data).train
    np.testing.assert_array_equal(grey.targets, coloured.targets)
    # Each is normalised by itself: by pixel the one, by channel the other.
    means = coloured.inputs.reshape(-1, 16, 2, 16, 2, 3).mean((2, 4, 5))
    pixels = means.reshape(len(means), -1)[:, 100], grey.inputs[:, 100]
    assert np.corrcoef(*pixels)[0, 1] > 0.99


def test_the_manuals_texts_go_on_where_the_parts_before_end(real_data):
    text = bundled.python_manual()[:100_000]
    data = PAPER["python-manual-characters"].load(real_data)
    parts = (data.train, data.validation, data.test)
    tokens = np.concatenate([np.append(p.inputs, p.targets[-1]) for p in parts])
    assert len(tokens) == len(text)
    # A number for each character, but for the rare ones' zero.
    assert len({*zip(text, tokens.tolist(), strict=True)}) == len(set(text))
    words = PAPER["python-manual"].load(real_data)
    assert np.unique(words.train.inputs).size == 1_000


@pytest.mark.parametrize("task", TASKS, ids=_id)
def test_model_takes_the_data_and_the_loss_is_that_of_a_guess(real_data, task):
    if task.scale == "dry" or (task.name, task.scale) == ("penn-treebank", "paper"):
        pytest.skip("the model of the paper's scale; docs/data.md has a run of it")
    data = task.load(real_data)
    if data.incomplete is None or task.scale == "laptop":
        # About: a manual that Python brings along has another length in each version.
        assert len(data.train.inputs) == pytest.approx(task.examples, rel=0.05)
    shape = BatchShape(64, 8 if task.sequence_lengths else None)
    indices, weights = task.sampling.sweep(len(data.test.inputs), shape)
    batch = task.sampling.gather(
        jax.tree.map(jnp.asarray, data.test), indices[0], weights[0], shape
    )
    params, state = jax.jit(task.init)(jax.random.key(0))
    predict = jax.jit(task.predict, static_argnames="training")
    outputs, new = predict(params, batch.inputs, state, training=True)
    losses = task.likelihood.loss(outputs, batch.targets)
    assert losses.shape == batch.targets.shape[: losses.ndim]
    assert jax.tree.structure(new) == jax.tree.structure(state)
    guess = 0.5 if task.accuracy is None else np.log(outputs.shape[-1])
    # Random logits, or a random output, are worse than the best guess by about half.
    assert 0.7 * guess < jnp.mean(losses) < 2 * guess
    if task.accuracy is not None:
        right = task.accuracy(outputs, batch.targets)
        assert right.shape == batch.targets.shape


def test_laptop_scales_differ_in_little_but_size():
    for room in ROOMS:
        paper, laptop = room.SCALES["paper"], room.SCALES.get("laptop")
        if laptop is None:
            continue
        assert laptop.scale == "laptop"
        same = ("name", "title", "likelihood", "sampling", "augment", "accuracy")
        for field in dataclasses.fields(Task):
            if field.name in same:
                assert getattr(paper, field.name) is getattr(laptop, field.name)


def test_shift_and_mirror_moves_each_image_by_at_most_four_pixels():
    images = jax.random.normal(jax.random.key(1), (40, 32, 32, 3))
    moved = np.asarray(cifar_10.shift_and_mirror(jax.random.key(0), images))
    padded = np.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)))
    seen = []
    for image, whole in zip(moved, padded, strict=True):
        places = [
            (mirrored, top, left)
            for mirrored in (False, True)
            for top in range(9)
            for left in range(9)
            if np.array_equal(
                image[:, ::-1] if mirrored else image,
                whole[top : top + 32, left : left + 32],
            )
        ]
        assert len(places) == 1
        seen += places
    assert {mirrored for mirrored, _, _ in seen} == {False, True}
    assert len({(top, left) for _, top, left in seen}) > 20


def test_dry_runs_are_the_papers_in_all_but_the_number_of_examples(real_data):
    dry = [room.SCALES["dry"] for room in ROOMS if "dry" in room.SCALES]
    for task in dry:
        paper = PAPER[task.name]
        assert (task.init, task.predict) == (paper.init, paper.predict)
        data = task.load(real_data)
        assert data.incomplete is not None and "a dry run" in data.incomplete
        assert len(data.train.inputs) < 10_000
