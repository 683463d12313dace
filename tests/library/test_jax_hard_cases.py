"""Settings that users bring, and starts that are far off (see also `hard_cases`)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from adamqlr.jax import (
    Categorical,
    Gaussian,
    Objective,
    adam_qlr,
    qlr,
    train_step,
)
from cases import many_steps, mlp, mlp_params, one_step

EXAMPLES = 128
X = jax.random.normal(jax.random.key(0), (EXAMPLES, 3))
TEACHER = jax.tree.map(lambda leaf: 0.3 - leaf[::-1], mlp_params())
Y = mlp(TEACHER, X)
CLASSES = jnp.argmax(Y, axis=1)


DEFAULT, KINDS = adam_qlr(), {"gaussian": Gaussian(), "categorical": Categorical()}


# Compiled once for all cases of a kind, since it is the data that are hard.
@functools.partial(jax.jit, static_argnames=("kind", "rule", "batch"))
def _trained(params, data, keys, kind, rule, batch):
    def step(carry, key):
        params, state = carry
        rows = jax.random.randint(key, (batch,), 0, len(data[0]))
        objective = Objective(mlp, KINDS[kind], *[part[rows] for part in data])
        params, state, *_ = train_step(rule, objective, params, state)
        return (params, state), Objective(mlp, KINDS[kind], *data)(params)

    (params, _), losses = jax.lax.scan(step, (params, rule.init(params)), keys)
    return params, losses


def train(data, kind, rule=DEFAULT, *, params=None, batch=16, steps=300):
    """The loss of all data before and after training, and the parameters.

    On the way it may not rise far above where it began.
    """
    params = mlp_params() if params is None else params
    keys = jax.random.split(jax.random.key(1), steps)
    trained, losses = _trained(params, data, keys, kind, rule, batch)
    before = float(Objective(mlp, KINDS[kind], *data)(params))
    assert (losses < 1.5 * before).all()
    return before, float(losses[-1]), trained


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_the_targets_unit_does_not_change_the_answer(unit):
    """A linear network from zero has no unit of its own, nor has the method."""
    predict = lambda params, x: x @ params
    optimiser, params = adam_qlr(), jnp.zeros((3, 2))
    objective = Objective(predict, Gaussian(), X, unit * Y)

    params, _ = many_steps(optimiser, objective, params, 150)
    best = unit * jnp.linalg.lstsq(X, Y)[0]
    np.testing.assert_allclose(params, best, rtol=0.02, atol=0.02 * unit)


@pytest.mark.parametrize("kind, targets", [("gaussian", Y), ("categorical", CLASSES)])
def test_weights_that_start_far_too_large_come_back(kind, targets):
    huge = jax.tree.map(lambda leaf: 100 * leaf, mlp_params())
    before, after, _ = train((X, targets), kind, params=huge)
    assert after < before / 10


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("factor", [100.0, 1000.0])
def test_a_softmax_that_is_sure_of_everything_comes_back(seed, factor):
    """Where it is sure its Fisher information is zero, and where it is wrong too."""
    params = mlp_params()
    keys = jax.random.split(jax.random.key(seed), len(params))
    huge = {
        name: factor * jax.random.normal(key, params[name].shape)
        for name, key in zip(params, keys, strict=True)
    }
    before, after, _ = train((X, CLASSES), "categorical", params=huge)
    assert after < before


def test_a_frozen_part_stays_and_the_rest_learns():
    frozen = {"w1": "frozen", "b1": "free", "w2": "free"}
    parts = {"free": optax.scale_by_adam(), "frozen": optax.set_to_zero()}
    before, after, params = train(
        (X, Y), "gaussian", qlr(optax.partition(parts, frozen))
    )
    assert after < before / 2
    np.testing.assert_array_equal(params["w1"], mlp_params()["w1"])


def test_clipping_and_weight_decay_go_before_the_rule():
    before, after, _ = train(
        (X, Y),
        "gaussian",
        optax.chain(
            optax.clip_by_global_norm(0.1), optax.add_decayed_weights(1e-4), adam_qlr()
        ),
    )
    assert after < before / 4


def test_micro_batches_make_the_step_of_the_whole_batch():
    """An objective may take its batch in parts, which then are one batch to it."""
    parts = lambda params, x: jax.lax.map(
        lambda rows: mlp(params, rows), x.reshape(4, -1, 3)
    ).reshape(-1, 2)

    def stepped(predict):
        objective = Objective(predict, Gaussian(), X, Y)
        return one_step(adam_qlr(), objective, mlp_params())[1].info

    np.testing.assert_allclose(stepped(parts)[:6], stepped(mlp)[:6], rtol=1e-3)


def test_dead_units_leave_the_parameters_alone():
    dead = lambda params, x: jax.nn.relu(x @ params["w"] - 100.0) @ params["w"].T
    params, objective = {"w": jnp.ones((3, 3))}, Objective(dead, Gaussian(), X, X)
    new, state = one_step(adam_qlr(), objective, params)
    assert not state.info.rejected and (new["w"] == params["w"]).all()
