"""What the rule remembers of former batches: curvature, examples, targets' scale."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from adamqlr.jax import (
    Categorical,
    Fisher,
    Gaussian,
    KLBudget,
    Limit,
    Objective,
    Probe,
    Rule,
    Subsampled,
    adam_qlr,
    qlr,
    train_step,
)
from cases import CASES, many_steps, mlp, mlp_params

X = 3 + 2 * jax.random.normal(jax.random.key(0), (7, 8, 3))
Y = 5 + 4 * jax.random.normal(jax.random.key(1), (7, 8, 2))
MASKS = jax.random.bernoulli(jax.random.key(2), 0.7, (7, 8)).astype(float)


def infos(optimiser, likelihood, targets, weights=None):
    """The state after each of seven steps, on seven batches."""
    params, states = mlp_params(), []
    state = optimiser.init(params)
    for i in range(7):
        mask = None if weights is None else weights[i]
        objective = Objective(mlp, likelihood, X[i], targets[i], mask)
        params, state, *_ = train_step(optimiser, objective, params, state)
        states.append(state)
    return states


def test_the_targets_scale_is_that_of_all_examples_seen():
    for i, state in enumerate(infos(adam_qlr(), Gaussian(), Y, MASKS)):
        rows = np.asarray(Y[: i + 1])[np.asarray(MASKS[: i + 1]) == 1]
        assert state.memory.examples == len(rows)
        np.testing.assert_allclose(state.memory.mean, rows.mean(), rtol=1e-5)
        np.testing.assert_allclose(state.memory.variance, rows.var(), rtol=1e-5)


def adams_direction(state):
    """Of the last step, from Adam's moments after it."""
    corrected = lambda moment, decay: optax.tree.bias_correction(
        moment, decay, state.base.count
    )
    return jax.tree.map(
        lambda m, v: m / (jnp.sqrt(v) + 1e-8),
        corrected(state.base.mu, 0.9),
        corrected(state.base.nu, 0.999),
    )


def test_each_step_spends_what_the_examples_seen_allow():
    """Counted for a direction of the usual length, within tenfold of its own.

    What was seen by a network worse than a constant hardly counts, and it may go on.
    """
    budget = KLBudget(1e-5, decay=0.25, power=0.5)
    optimiser = qlr(optax.scale_by_adam(), curvature=Fisher(), rule=Rule(budget=budget))
    for kind, targets in [(Gaussian(), Y - 4), (Categorical(), jnp.argmax(Y, axis=2))]:
        seen, most = 0, 1.0 if kind.chance(Y[0]) is None else 0.1 * np.log(2)
        for state in infos(optimiser, kind, targets):
            ratio = max(state.memory.error / state.memory.variance, 1)
            seen += 8 / ratio**6
            own = optax.tree.norm(adams_direction(state), squared=True)
            usual = np.clip(state.memory.square_norm, own / 10, own * 10)
            budget = 1e-5 * 8**0.5 / max(seen, 8) ** 0.25
            allowed = max(budget, min(budget * ratio**6, most))
            np.testing.assert_allclose(
                state.info.kl_divergence, allowed * own / usual, 1e-3
            )
            assert state.info.limit == Limit.KL_BUDGET


def test_the_running_mean_stands_for_the_curvature():
    decay, mean = 0.8, 0.0
    rule = Rule(budget=None, curvature_decay=decay, look_every=1)
    optimiser = qlr(optax.scale_by_adam(), curvature=Fisher(), rule=rule)
    for state in infos(optimiser, Gaussian(), Y):
        info, direction = state.info, adams_direction(state)
        square_norm = float(optax.tree.vdot(direction, direction))
        steepness = float(info.curvature) / square_norm
        mean = steepness if mean == 0 else decay * mean + (1 - decay) * steepness
        bend = mean * square_norm
        assert info.step_size == pytest.approx(float(info.slope) / bend, rel=1e-4)
        assert state.memory.curvature == pytest.approx(mean, rel=1e-4)


def test_known_outputs_change_nothing_but_the_work():
    objective, params = CASES["convolution, batch norm"]()
    optimiser = adam_qlr()
    (value, (outputs, _)), grad = jax.value_and_grad(
        objective.with_outputs, has_aux=True
    )(params)
    call = lambda **known: optimiser.update(
        grad, optimiser.init(params), params,
        value=value, grad=grad, value_fn=objective, **known,
    )  # fmt: skip
    for with_them, without in zip(
        jax.tree.leaves(call(outputs=outputs)), jax.tree.leaves(call()), strict=True
    ):
        np.testing.assert_allclose(with_them, without, rtol=1e-4, atol=1e-6)


def test_a_probe_of_a_part_trains_as_far_as_one_of_the_whole():
    """A part's loss must not be set against the whole batch's slope."""
    x = jax.random.normal(jax.random.key(5), (32, 3))
    objective = Objective(mlp, Categorical(), x, jnp.argmax(x[:, :2], axis=1))

    def trained(curvature):
        optimiser = adam_qlr(curvature=curvature)
        return objective(many_steps(optimiser, objective, mlp_params(), 100)[0])

    assert trained(Subsampled(Probe(), 4, least=8)) < 1.5 * trained(Probe()) + 0.01
