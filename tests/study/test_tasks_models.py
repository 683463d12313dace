"""The networks: sizes, initial weights, masks, causality, and K-FAC's view of them."""

from collections import Counter
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qlrstudy.models import GPT2, MLP, ResNet, batch_normed, hits, plain
from qlrstudy.models.convolution import PART, by_convolution, by_matrix, by_parts
from qlrstudy.models.networks import Network
from qlrstudy.models.pooling import max_pool

assert_close = np.testing.assert_allclose
KEY = jax.random.key(0)
IMAGE = (32, 32, 3)
SMALL = {
    "MLP": (plain(MLP((50,), 10), (784,)), (16, 784)),
    "ResNet": (batch_normed(ResNet(width=4, blocks=(1, 1)), IMAGE), (16, *IMAGE)),
    "GPT-2": (plain(GPT2(50, 16, 1, 2, 32), (8,), jnp.int32), (4, 8)),
}
# As K-FAC gets it.
DIRECT = batch_normed(ResNet(width=4, blocks=(1, 1), direct=True), IMAGE)


def _size(network: Network) -> int:
    params, _ = jax.eval_shape(network.init, KEY)
    return sum(leaf.size for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize(
    ("network", "size"),
    [
        (plain(MLP((50,), 1), (8,)), 8 * 50 + 50 + 50 + 1),
        (plain(MLP((50,), 10), (784,)), 784 * 50 + 50 + 500 + 10),
        # torchvision's resnet18 has 11,689,512 with 1,000 classes of 513 weights each.
        (batch_normed(ResNet(), IMAGE), 11_689_512 - 990 * 513),
        # Hugging Face's gpt2 has 124,439,808 with a vocabulary of 50,257 tied rows.
        (plain(GPT2(), (2,), jnp.int32), 124_439_808 - 40_257 * 768),
    ],
    ids=["MLP energy", "MLP fashion", "ResNet-18", "GPT-2"],
)
def test_networks_have_the_published_number_of_parameters(network, size):
    assert _size(network) == size


@pytest.mark.parametrize(
    ("network", "fan_in"),
    [
        (plain(MLP((400,), 300), (900,)), {(900, 400): 900, (400, 300): 400}),
        (
            batch_normed(ResNet(width=32, blocks=(1, 1)), IMAGE),
            {(7, 7, 3, 32): 147, (3, 3, 32, 64): 288, (1, 1, 32, 64): 32},
        ),
        (
            plain(GPT2(900, 64, 1, 4, 200), (8,), jnp.int32),
            {(900, 64): 64, (200, 64): 64, (64, 192): 64, (256, 64): 256},
        ),
    ],
    ids=["MLP", "ResNet", "GPT-2"],
)
def test_weights_are_normal_truncated_at_two_deviations(network, fan_in):
    params, _ = jax.jit(network.init)(KEY)
    found = 0
    for leaf in jax.tree.leaves(params):
        if leaf.shape not in fan_in:
            continue
        found += 1
        units = np.asarray(leaf) * np.sqrt(fan_in[leaf.shape])
        assert abs(units).max() < 2 + 1e-5
        # 0.8796 is the deviation of a standard normal truncated at two; its estimate
        # from n draws varies by less than 1/sqrt(2 n).
        assert abs(units.std() - 0.8796) < 4 / np.sqrt(2 * units.size)
        assert abs(units.mean()) < 4 * 0.8796 / np.sqrt(units.size)
    assert found >= len(fan_in)


@pytest.mark.parametrize("name", SMALL)
def test_biases_start_at_zero(name):
    params, _ = jax.jit(SMALL[name][0].init)(KEY)
    leaves = jax.tree_util.tree_leaves_with_path(params)
    biases = [leaf for path, leaf in leaves if "bias" in jax.tree_util.keystr(path)]
    assert biases and not any(jnp.any(bias) for bias in biases)


def test_masked_rows_do_not_enter_batch_norm():
    network, shape = SMALL["ResNet"]
    params, state = jax.jit(network.init)(KEY)
    images = jax.random.normal(KEY, shape)
    weights = jnp.arange(16) < 10
    padded = jnp.where(weights[:, None, None, None], images, 100.0)
    predict = jax.jit(network.predict, static_argnames="training")
    few, few_state = predict(params, images[:10], state, training=True)
    all_, all_state = predict(
        params, padded, state, training=True, weights=weights.astype(float)
    )
    np.testing.assert_allclose(all_[:10], few, rtol=1e-3, atol=1e-4)
    for one, other in zip(
        jax.tree.leaves(few_state), jax.tree.leaves(all_state), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


# Height, width, stride and kernel: those of the ResNet-18, and stranger ones.
@pytest.mark.parametrize(
    "case", [(2, 2, 1, 3), (2, 2, 2, 3), (1, 1, 1, 3), (5, 3, 2, 3), (3, 2, 3, 2)]
)
@pytest.mark.parametrize("way", [by_matrix, by_parts])
def test_a_rearranged_convolution_is_the_same(way, case):
    height, width, stride, size = case
    x = jax.random.normal(KEY, (PART + 3, height, width, 2))
    kernel = jax.random.normal(KEY, (size, size, 2, 4))

    def all_of(way: Any) -> Any:
        curve = lambda x, kernel: jnp.mean(jnp.tanh(way(x, kernel, stride)))
        grad = jax.grad(curve, (0, 1))
        along = jax.jvp(lambda k: way(x, k, stride), (kernel,), (kernel**2,))
        bend = jax.jvp(lambda k: grad(x, k), (kernel,), (kernel,))
        return grad(x, kernel), along, bend

    found, expected = jax.jit(lambda: (all_of(way), all_of(by_convolution)))()
    jax.tree.map(partial(assert_close, rtol=1e-5, atol=1e-5), found, expected)


def test_the_pool_is_flaxs():
    """After a ReLU, as in the network: where the greatest are equal, they are zero."""
    x = jax.random.normal(KEY, (3, 6, 4, 5))

    def all_of(pool: Any) -> Any:
        curve = lambda x: jnp.sum(jnp.tanh(pool(nn.relu(x))))
        return pool(x), jax.grad(curve)(x), jax.jvp(curve, (x,), (x**2,))

    theirs = partial(nn.max_pool, window_shape=(3, 3), strides=(2, 2), padding="SAME")
    found, expected = jax.jit(lambda: (all_of(max_pool), all_of(theirs)))()
    jax.tree.map(partial(assert_close, rtol=1e-6, atol=1e-6), found, expected)


def test_the_network_is_the_same_with_direct_convolutions():
    """Its weights too, so that no stored result is of another network."""
    one, other = (
        batch_normed(ResNet(width=4, blocks=(1, 1, 1, 1), direct=direct), IMAGE)
        for direct in (False, True)
    )
    params, state = jax.jit(one.init)(KEY)
    jax.tree.map(assert_close, (params, state), jax.jit(other.init)(KEY))
    images = jax.random.normal(KEY, (6, *IMAGE))
    predict = lambda network: network.predict(params, images, state, training=True)
    ours, theirs = jax.jit(lambda: (predict(one), predict(other)))()
    jax.tree.map(partial(assert_close, rtol=1e-3, atol=1e-3), ours, theirs)


def test_evaluation_uses_the_running_statistics_and_keeps_them():
    network, shape = SMALL["ResNet"]
    params, state = jax.jit(network.init)(KEY)
    images = jax.random.normal(KEY, shape)
    outputs, after = network.predict(params, images, state, training=False)
    alone, _ = network.predict(params, images[:1], state, training=False)
    np.testing.assert_allclose(outputs[:1], alone, rtol=1e-4, atol=1e-5)
    jax.tree.map(np.testing.assert_array_equal, after, state)


def test_gpt2_does_not_see_the_future():
    network, shape = SMALL["GPT-2"]
    params, state = jax.jit(network.init)(KEY)
    tokens = jax.random.randint(KEY, shape, 0, 50)
    changed = tokens.at[:, 5:].set(7)
    before, _ = network.predict(params, tokens, state, training=True)
    after, _ = network.predict(params, changed, state, training=True)
    np.testing.assert_allclose(before[:, :5], after[:, :5], atol=1e-6)
    assert jnp.any(abs(before[:, 5:] - after[:, 5:]) > 1e-3)


def test_hits_are_right_argmaxes():
    logits = jnp.array([[[0.0, 1.0], [2.0, 1.0]]])
    assert hits(logits, jnp.array([[1, 1]])).tolist() == [[True, False]]


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("MLP", {"DenseTwoKroneckerFactored": 2}),
        (
            "ResNet",
            {
                "Conv2DTwoKroneckerFactored": 6,
                "DenseTwoKroneckerFactored": 1,
                "ScaleAndShiftDiagonal": 6,
            },
        ),
        # Embeddings are looked up, not multiplied: kfac-jax has no factors for those.
        (
            "GPT-2",
            {
                "RepeatedDenseKroneckerFactored": 4,
                "ScaleAndShiftDiagonal": 3,
                "NaiveDiagonal": 2,
            },
        ),
    ],
)
# kfac-jax 0.0.8 sets a flag that jax 0.9 deprecates.
@pytest.mark.filterwarnings("ignore:Setting `jax_pmap:DeprecationWarning")
@pytest.mark.usefixtures("kfac_jax_installed")
def test_kfac_knows_the_layers(name, blocks):
    import kfac_jax

    network, shape = SMALL[name]
    network = DIRECT if name == "ResNet" else network
    params, state = jax.jit(network.init)(KEY)
    inputs = jnp.zeros(shape, jnp.int32 if name == "GPT-2" else jnp.float32)
    targets = jnp.zeros(shape[:2] if name == "GPT-2" else shape[:1], jnp.int32)

    def loss(params: Any, batch: tuple[jax.Array, jax.Array]) -> jax.Array:
        weights = jnp.ones(batch[0].shape[:1])
        logits, _ = network.predict(
            params, batch[0], state, training=True, weights=weights
        )
        flat = logits.reshape(-1, logits.shape[-1])
        kfac_jax.register_softmax_cross_entropy_loss(flat, batch[1].ravel())
        return -jnp.mean(jax.nn.log_softmax(flat)[:, 0])

    estimator = kfac_jax.BlockDiagonalCurvature(loss)
    estimator.finalize((params, (inputs, targets)))
    assert estimator.blocks is not None
    assert Counter(type(block).__name__ for block in estimator.blocks) == blocks
