"""The rule around a direction: its equations and its limits."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from adamqlr.jax import (
    Damping,
    Fisher,
    Gaussian,
    Hessian,
    KLBudget,
    Limit,
    Objective,
    Probe,
    adam_qlr,
    qlr,
    sgd_qlr,
    train_step,
)
from adamqlr.jax.scalars import slope_and_square, squares_are_finite
from cases import (
    CASES,
    double,
    linear_regression,
    many_steps,
    mlp,
    mlp_params,
    one_step,
    plain,
    rosenbrock,
)
from oracles import brute_force_minimum


def test_the_step_is_the_line_search_of_the_damped_model(x64):
    objective, params = double("categorical")
    optimiser = plain(damping=Damping(0.1))
    new, state = one_step(optimiser, objective, params)
    grad = jax.grad(objective)(params)
    direction, _ = optax.scale_by_adam().update(
        grad, optax.scale_by_adam().init(params)
    )
    slope = optax.tree.vdot(grad, direction)
    bend = state.info.curvature + 0.1 * optax.tree.vdot(direction, direction)
    best = brute_force_minimum(lambda a: -a * slope + a * a * bend / 2, -10, 10)
    assert state.info.step_size == pytest.approx(best, abs=1e-6)
    expected = optax.tree.add_scale(params, -state.info.step_size, direction)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), new, expected
    )


def test_info_reports_what_the_step_did(x64):
    objective, params = double("poisson")
    new, state = one_step(plain(damping=Damping(0.1)), objective, params)
    info = state.info
    assert info.loss == pytest.approx(float(objective(params)))
    assert info.trial_loss == pytest.approx(float(objective(new)))
    assert info.damping == 0.1
    assert info.predicted_change < 0
    ratio = (info.trial_loss - info.loss) / info.predicted_change
    assert info.reduction_ratio == pytest.approx(float(ratio))
    assert not info.rejected


@pytest.mark.parametrize("make", [adam_qlr, sgd_qlr])
def test_ratio_is_one_on_an_undamped_quadratic(make, x64):
    objective, params = linear_regression()
    params = params.astype("float64")
    _, state = one_step(
        plain(make, damping=Damping(1e-300, floor=0.0)), objective, params
    )
    assert state.info.reduction_ratio == pytest.approx(1, abs=1e-9)
    assert state.memory.damping == 0.5e-300


def test_an_undamped_step_needs_no_trial():
    objective, params = linear_regression()
    _, state = one_step(plain(damping=None), objective, params)
    assert state.memory.damping == 0
    assert jnp.isnan(state.info.trial_loss) and jnp.isnan(state.info.reduction_ratio)
    assert not state.info.rejected


@pytest.mark.parametrize("scale", [-3.0, 0.01])
def test_rescaling_the_direction_leaves_the_update(scale, x64):
    objective, params = double("bernoulli")
    bases = (
        optax.scale_by_adam(),
        optax.chain(optax.scale_by_adam(), optax.scale(scale)),
    )
    new = [one_step(plain(qlr, base), objective, params)[0] for base in bases]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), *new)


def test_rescaling_the_weights_leaves_the_step(x64):
    weights = jnp.linspace(0.5, 2, 16)
    new = [
        one_step(plain(), *linear_regression(factor * weights))[0]
        for factor in (1, 100)
    ]
    np.testing.assert_allclose(*new, rtol=1e-9)


def test_undamped_newton_steps_on_rosenbrock_follow_the_hessian(x64):
    params = jnp.array([1.0, -1.0])
    for _ in range(3):
        grad = jax.grad(rosenbrock)(params)
        hessian = jax.hessian(rosenbrock)(params)
        alpha = grad @ grad / (grad @ hessian @ grad)
        optimiser = plain(sgd_qlr, curvature=Hessian(signed=True), damping=None)
        new, state = one_step(optimiser, rosenbrock, params)
        assert state.info.step_size == pytest.approx(float(alpha), rel=1e-9)
        np.testing.assert_allclose(new, params - alpha * grad, rtol=1e-9)
        params = new


def test_adamqlr_descends_rosenbrock_with_the_hessian():
    start = jnp.array([1.0, -1.0])
    params, _ = many_steps(plain(curvature=Hessian()), rosenbrock, start, 200)
    assert rosenbrock(params) < 0.1


def test_only_the_signed_hessian_climbs():
    saddle = lambda p: jnp.cos(p[0])
    params = jnp.array([0.3])
    after = {
        signed: saddle(
            one_step(plain(sgd_qlr, curvature=Hessian(signed)), saddle, params)[0]
        )
        for signed in (True, False)
    }
    assert after[True] > saddle(params) > after[False]


def test_rescaling_factor_multiplies_the_step():
    objective, params = linear_regression()
    whole = one_step(plain(), objective, params)[1].info.step_size
    halved = one_step(plain(rescale=0.5), objective, params)[1].info.step_size
    assert halved == whole / 2


def test_steps_spend_their_kl_budget_as_directions_go():
    """The first has the usual length by definition; others may be ten times off."""
    objective, params = CASES["categorical, masked"]()
    _, states = many_steps(
        plain(budget=KLBudget(1e-5, decay=0.0, power=1.0)), objective, params, 30
    )
    info, memory = states.info, states.memory
    # This network starts worse than one that guesses, which opens the budget.
    dispersion = np.maximum(memory.error / memory.variance, 1)
    astray = dispersion**6
    assert (info.kl_divergence <= 10 * 4e-5 * astray * 1.001).all()
    counted = np.maximum(info.curvature, info.slope**2 / (2 * info.loss))
    spent = info.step_size**2 * counted / 2 / dispersion
    assert (info.limit == Limit.KL_BUDGET).any()
    np.testing.assert_allclose(spent[0], 4e-5 * astray[0], 1e-3)
    np.testing.assert_allclose(info.kl_divergence, spent, 1e-3)


def test_info_says_what_limits_the_step():
    objective, params = linear_regression()
    decided = [
        int(one_step(plain(budget=KLBudget(nats)), objective, params)[1].info.limit)
        for nats in (1e9, 1e-9)
    ]
    assert decided == [Limit.MODEL, Limit.KL_BUDGET]


def test_a_budget_needs_examples_to_count():
    with pytest.raises(TypeError, match="Rule.budget needs the model's outputs"):
        one_step(
            plain(curvature=Hessian(), budget=KLBudget(1e-5, decay=0.0)),
            rosenbrock,
            jnp.ones(2),
        )


@pytest.mark.parametrize(
    "case", ["categorical", "poisson", "attention, padded sequences"]
)
def test_the_probe_trains_like_the_exact_product(case, x64):
    objective, params = double(case)
    exact, _ = many_steps(plain(damping=Damping(0.1)), objective, params, 20)
    probed, _ = many_steps(
        plain(damping=Damping(0.1), curvature=Probe()), objective, params, 20
    )
    start, end = objective(params), objective(exact)
    assert objective(probed) < end + 0.25 * (start - end)


def test_a_probes_ratio_is_the_exact_one_on_a_quadratic(x64):
    objective, params = linear_regression()
    params = params.astype("float64")
    _, states = many_steps(
        plain(curvature=Probe(), damping=Damping(1e-300, floor=0.0)),
        objective, params, 10,
    )  # fmt: skip
    # The first steps are as short as the first probe, and show rounding.
    np.testing.assert_allclose(states.info.reduction_ratio[2:6], 1, atol=1e-6)


def test_a_probe_that_fails_looks_nearer_until_it_sees():
    # The third is 150 and in no use, so that a probe may go as far as 10.
    cliff = Objective(
        lambda w, x: jnp.where(abs(w[:2]).max() > 0.1, jnp.nan, x @ w[:2]),
        Gaussian(), jnp.ones((4, 2)), jnp.full((4, 1), 0.05),
    )  # fmt: skip
    params = jnp.array([[0.01], [0.01], [150.0]])
    optimiser = plain(curvature=Probe())
    state = optimiser.init(params)
    state = state._replace(memory=state.memory._replace(reach=jnp.asarray(10.0)))
    step = jax.jit(lambda *carry: train_step(optimiser, cliff, *carry)[:2])
    reaches = []
    for _ in range(6):
        params, state = step(params, state)
        reaches.append(float(state.memory.reach))
    assert reaches[:3] == [2.5, 0.625, 0.15625]
    assert state.info.rejections == 4 and cliff(params) < 1e-4
    assert jnp.isfinite(params).all()


def test_damping_follows_its_rule_over_many_steps(x64):
    optimiser = plain(damping=Damping(decrease=0.7, increase=3.0))
    _, states = many_steps(optimiser, *double("categorical"), steps=40)
    ratio = np.asarray(states.info.reduction_ratio)
    factor = np.where(ratio > 0.75, 0.7, np.where(ratio < 0.25, 3.0, 1.0))
    assert len(set(factor)) > 1
    expected = np.maximum(states.info.damping * factor, 1e-8)
    np.testing.assert_allclose(states.memory.damping, expected, rtol=1e-12)
    np.testing.assert_array_equal(states.info.damping[1:], states.memory.damping[:-1])


def test_a_rule_looks_at_first_and_then_at_every_third_step():
    optimiser = plain(curvature_decay=0.9, look_every=3)
    _, states = many_steps(optimiser, *CASES["categorical"](), steps=13)
    info, looked = states.info, [n < 8 or n % 3 == 0 for n in range(13)]
    assert np.isfinite(info.curvature).tolist() == looked
    assert np.isfinite(info.reduction_ratio).tolist() == looked
    skipped = ~np.asarray(looked)
    assert (states.memory.damping == info.damping)[skipped].all()
    mean = states.memory.curvature
    assert (mean[1:] == mean[:-1])[skipped[1:]].all()
    assert (info.step_size != 0).all() and not info.rejected.any()


def test_padded_rows_do_not_lengthen_the_step():
    """The reference code's one divergence, and why it is not ours.

    It pads a batch of 588 to 3,200 rows; for the squared error the padding enters the
    curvature's mean as zeros, but not the loss's, so the curvature is 588/3,200 of
    its value and the step 5.4 times too long.
    """
    x = jax.random.normal(jax.random.key(0), (588, 3))
    y = mlp(mlp_params(), x)
    params = jax.tree.map(lambda leaf: leaf + 0.1, mlp_params())
    pad = lambda rows: jnp.concatenate([rows, jnp.zeros((3200 - 588, rows.shape[1]))])
    mask = jnp.arange(3200) < 588

    class PaddedMean(Fisher):
        def look(self, point, direction, reach):
            look = super().look(point, direction, reach)
            return look._replace(curvature=look.curvature * 588 / 3200)

    whole = Objective(mlp, Gaussian(), x, y)
    padded = Objective(mlp, Gaussian(), pad(x), pad(y), mask)
    undamped = {"damping": Damping(1e-12, floor=0.0)}
    ours = one_step(plain(**undamped), whole, params)[1].info
    with_padding = one_step(plain(**undamped), padded, params)[1].info
    theirs = one_step(plain(curvature=PaddedMean(), **undamped), whole, params)[1].info
    assert with_padding.step_size == pytest.approx(float(ours.step_size), rel=1e-4)
    assert theirs.step_size == pytest.approx(
        float(ours.step_size) * 3200 / 588, rel=1e-4
    )
    # Beyond twice the model's minimum the loss rises: the start of the divergence.
    assert ours.trial_loss < ours.loss < theirs.trial_loss


def test_sequences_train():
    objective, start = CASES["attention, padded sequences"]()
    params, _ = many_steps(plain(), objective, start, 30)
    assert objective(params) < objective(start) / 2


@pytest.mark.parametrize("shapes", [[()], [(3,), (2, 5)], [(2, 3, 4), (0,), (7, 1)]])
def test_slope_and_square_are_those_of_the_joined_vectors(shapes):
    draws = np.random.default_rng(0)
    g, d = [
        [draws.normal(size=shape).astype(np.float32) for shape in shapes] for _ in "gd"
    ]
    joined = [np.concatenate([np.ravel(leaf) for leaf in tree]) for tree in (g, d)]
    found = slope_and_square(*jax.tree.map(jnp.asarray, (g, d)))
    expected = joined[0] @ joined[1], joined[1] @ joined[1]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30, -1e30])
def test_a_gradient_without_a_finite_square_leaves_no_trace(bad):
    optimiser, params = adam_qlr(), {"w": jnp.ones((2, 3)), "b": jnp.ones(3)}
    objective = Objective(
        lambda p, x: x @ p["w"] + p["b"], Gaussian(), jnp.ones((4, 2)), jnp.ones((4, 3))
    )
    _, state, *_ = train_step(optimiser, objective, params, optimiser.init(params))
    value, grad = jax.value_and_grad(objective)(params)
    grad["b"] = grad["b"].at[1].set(bad)
    update = jax.jit(
        lambda grad: optimiser.update(
            grad, state, params, value=value, grad=grad, value_fn=objective
        )
    )
    updates, new = update(grad)
    assert new.info.rejected
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(updates))
    jax.tree.map(np.testing.assert_array_equal, new.base, state.base)
    jax.tree.map(np.testing.assert_array_equal, new.average, state.average)


@pytest.mark.parametrize("number, fits", [(1e18, True), (1e20, False)])
def test_a_square_is_too_large_by_the_precision_that_it_is_of(number, fits):
    assert bool(squares_are_finite([jnp.array([0.0, -number])])) is fits


def test_double_precision_has_room_for_larger_squares(x64):
    assert squares_are_finite([jnp.array([0.0, 1e100])])
