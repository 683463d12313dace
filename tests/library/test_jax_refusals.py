"""What is not finite is refused: nothing of a bad batch stays."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from adamqlr.jax import (
    PAPER,
    Categorical,
    Damping,
    Fisher,
    Gaussian,
    KLBudget,
    Objective,
    Probe,
    Rule,
    adam_qlr,
    sgd_qlr,
    train_step,
    trainer,
)
from cases import linear_regression, mlp, mlp_params, one_step, plain


def poisoned(where):
    """An objective that is not finite in one of the quantities a step looks at."""
    x, y = jnp.ones((4, 3)), jnp.zeros((4, 2))
    match where:
        case "loss":
            return Objective(mlp, Gaussian(), x, y + jnp.inf)
        case "gradient":
            return Objective(
                lambda p, x: mlp(p, x) + jnp.sqrt(jnp.abs(p["w1"] - p["w1"])).sum(),
                Gaussian(), x, y,
            )  # fmt: skip
        case "curvature":

            class Sharp(Gaussian):
                def fisher(self, outputs, tangent):
                    return jnp.full(len(outputs), jnp.inf)

            return Objective(mlp, Sharp(), x, y)
        case "trial loss":
            start = mlp_params()["w2"]
            return Objective(
                lambda p, x: jnp.where((p["w2"] == start).all(), mlp(p, x), jnp.nan),
                Gaussian(), x, y,
            )  # fmt: skip


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def padding():
    """An objective without a single example that counts."""
    return Objective(mlp, Gaussian(), jnp.ones((4, 3)), jnp.zeros((4, 2)), jnp.zeros(4))


@pytest.mark.parametrize("rule", [Rule(), PAPER])
def test_batches_of_padding_alone_teach_nothing(rule):
    """Least of all that the network knows all there is, as a loss of zero would say."""
    optimiser, params = adam_qlr(rule=rule), mlp_params()
    begun = state = optimiser.init(params)
    step = jax.jit(lambda *carry: train_step(optimiser, padding(), *carry)[:2])
    for refused in range(1, 9):
        params, state = step(params, state)
        assert_same(params, mlp_params())
        assert_same(state.base, begun.base)
        assert_same(state.memory, begun.memory._replace(rejections=refused))
        assert state.info.rejected


@pytest.mark.parametrize("label", [-1, 2])
def test_labels_of_classes_that_there_are_not_are_refused(label):
    labels = jnp.array([0, 1, label, 0])
    objective = Objective(mlp, Categorical(), jnp.ones((4, 3)), labels)
    _, state = one_step(adam_qlr(), objective, mlp_params())
    assert state.info.rejected
    masked = dataclasses.replace(objective, weights=jnp.array([1.0, 1.0, 0.0, 1.0]))
    _, state = one_step(adam_qlr(), masked, mlp_params())
    assert not state.info.rejected and state.info.step_size != 0


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("optimiser", [plain(), adam_qlr()], ids=["plain", "default"])
def test_a_batch_that_is_not_finite_leaves_all_but_the_counts(where, optimiser):
    params, state = mlp_params(), optimiser.init(mlp_params())
    healthy = Objective(mlp, Gaussian(), jnp.ones((4, 3)), jnp.zeros((4, 2)))
    step = lambda objective: jax.jit(
        lambda *carry: train_step(optimiser, objective, *carry)[:2]
    )
    well = step(healthy)
    for _ in range(3):
        params, state = well(params, state)
    new, after = step(poisoned(where))(params, state)
    assert_same(new, params)
    assert_same(after.base, state.base)
    assert_same(after.memory, state.memory._replace(rejections=1))
    assert after.info.rejected and after.info.step_size == 0


@pytest.mark.parametrize("where", ["curvature", "trial loss"])
def test_a_step_that_would_not_end_well_is_trusted_less(where):
    params, optimiser = mlp_params(), plain()
    state = optimiser.init(params)
    state = state._replace(memory=state.memory._replace(reach=jnp.asarray(1.0)))
    new, after, *_ = jax.jit(
        lambda *carry: train_step(optimiser, poisoned(where), *carry)
    )(params, state)
    assert_same(new, params)
    assert after.info.rejected and after.info.rejections == 1
    assert after.info.step_size == 0
    assert after.memory.damping == np.float32(2e-3) and after.memory.reach == 0.25
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(after.base))


def test_a_gradient_that_a_chain_made_finite_is_still_a_bad_batch():
    optimiser = optax.chain(optax.zero_nans(), adam_qlr())
    objective = Objective(
        lambda p, x: mlp(p, x) + jnp.sqrt(jnp.abs(p["w1"] - p["w1"])).sum(),
        Gaussian(), jnp.ones((4, 3)), jnp.zeros((4, 2)),
    )  # fmt: skip
    _, (_, state) = one_step(optimiser, objective, mlp_params())
    assert state.info.rejected and state.memory.reach == 0


def batches(rate):
    """Sixty batches, of which so many have a NaN in them."""
    x = jax.random.normal(jax.random.key(0), (60, 8, 3))
    bad = jax.random.bernoulli(jax.random.key(1), rate, (60,)).at[0].set(True)
    return jnp.where(bad[:, None, None], jnp.nan, x), jnp.sin(x[..., :2]), bad


@pytest.fixture(scope="module", params=[adam_qlr(), sgd_qlr(momentum=0.9)])
def trained_by(request):
    """A trainer whose step is compiled once for all tests that share it."""
    init, step = trainer(mlp, Gaussian(), request.param)
    return init, jax.jit(step)


@pytest.mark.parametrize("rate", [0.3, 0.6, 0.9])
def test_training_goes_on_as_if_bad_batches_had_not_been(rate, trained_by):
    init, step = trained_by

    def trained(x, y):
        params, state = mlp_params(), init(mlp_params())
        for batch in zip(x, y, strict=True):
            params, state = step(params, state, batch)
        return params, state

    x, y, bad = batches(rate)
    params, state = trained(x, y)
    expected, there = trained(x[~bad], y[~bad])
    assert state.optimiser.info.rejections == bad.sum()
    assert_same((params, state.optimiser.base), (expected, there.optimiser.base))
    counts = {"steps": 0, "rejections": 0}
    assert_same(
        state.optimiser.memory._replace(**counts),
        there.optimiser.memory._replace(**counts),
    )


def test_steps_between_looks_wait_for_a_first_curvature():
    optimiser = plain(curvature_decay=0.9, look_every=9)
    init, step = trainer(mlp, Gaussian(), optimiser)
    x, y, _ = batches(0.0)
    params, state = mlp_params(), init(mlp_params())
    step, looks = jax.jit(step), []
    for batch in zip(x[:11], y[:11], strict=True):  # the first is not finite
        params, state = step(params, state, batch)
        looks.append(bool(jnp.isfinite(state.optimiser.info.curvature)))
    assert looks == [False, *[True] * 8, False, True]


@pytest.mark.parametrize("optimiser", [adam_qlr(), optax.adam(1e-3)])
def test_a_bad_batch_leaves_the_model_s_state(optimiser):
    def model(params, x, state):
        return mlp(params, x), {"mean": 0.9 * state["mean"] + 0.1 * x.mean(0)}

    init, step = trainer(model, Gaussian(), optimiser)
    x, y, _ = batches(0.0)
    params, state = mlp_params(), init(mlp_params(), state={"mean": jnp.zeros(3)})
    params, state = jax.jit(step)(params, state, (x[1], y[1]))
    _, after = jax.jit(step)(params, state, (x[0], y[0]))
    assert not jnp.isfinite(after.loss) and jnp.any(state.model["mean"])
    assert_same(after.model, state.model)
    padding = jnp.zeros(len(y[1]))
    _, after = jax.jit(step)(params, state, (x[1] + 1, y[1], padding))
    assert_same(after.model, state.model)


def test_dead_units_leave_parameters_and_damping():
    dead = Objective(
        lambda w, x: jax.nn.relu(x @ w), Gaussian(), jnp.ones((4, 3)), jnp.ones((4, 1))
    )
    params = -jnp.ones((3, 1))
    for damping in (Damping(), None):
        new, state = one_step(plain(damping=damping), dead, params)
        np.testing.assert_array_equal(new, params)
        assert state.memory.damping == np.float32(1e-3 if damping else 0)
        assert not state.info.rejected and state.info.step_size == 0


def test_a_batch_of_masked_examples_leaves_parameters_and_damping():
    objective, params = linear_regression(weights=jnp.zeros(16))
    for curvature in (Fisher(), Probe()):
        optimiser = plain(curvature=curvature, budget=KLBudget(1e-5, decay=0.0))
        new, state = one_step(optimiser, objective, params)
        np.testing.assert_array_equal(new, params)
        assert state.memory.damping == np.float32(1e-3) and state.info.rejected
