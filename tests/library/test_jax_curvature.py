import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import oracles
from adamqlr.jax import (
    Fisher,
    Gaussian,
    GaussNewton,
    Hessian,
    Likelihood,
    Objective,
    Point,
    Probe,
    Subsampled,
    adam_qlr,
    train_step,
)
from cases import CASES, MASK, double, mlp, mlp_params, one_step, rosenbrock

each_case = pytest.mark.parametrize("case", CASES)
STEP = jnp.asarray(1.0)


def random_direction(params):
    flat, unravel = ravel_pytree(params)
    return unravel(jax.random.normal(jax.random.key(5), flat.shape, flat.dtype))


def along(matrix, direction):
    flat, _ = ravel_pytree(direction)
    return flat @ matrix @ flat


def looks_with(curvature, objective, params, direction):
    """Its compiled look, as a function of the reach."""
    look = jax.jit(lambda p, d, reach: curvature.look(Point(objective, p), d, reach))
    return lambda reach: look(params, direction, jnp.asarray(reach))


def measure(curvature, objective, params, direction):
    return looks_with(curvature, objective, params, direction)(STEP).curvature


@functools.cache
def measured(case, curvature):
    """Of a case in float64, along its random direction: once for all tests."""
    objective, params = double(case)
    return measure(curvature, objective, params, random_direction(params))


@each_case
@pytest.mark.parametrize(
    "curvature, dense",
    [(Fisher(), oracles.dense_fisher), (GaussNewton(), oracles.dense_gauss_newton)],
    ids=["Fisher", "GaussNewton"],
)
def test_curvature_is_the_dense_matrix_along_the_direction(case, curvature, dense, x64):
    objective, params = double(case)
    expected = along(dense(objective, params), random_direction(params))
    np.testing.assert_allclose(measured(case, curvature), expected, rtol=1e-9)


@each_case
def test_hessian_is_the_dense_matrix_along_the_direction(case, x64):
    objective, params = double(case)
    direction = random_direction(params)
    expected = along(oracles.dense_hessian(objective, params), direction)
    signed, absolute = measured(case, Hessian(signed=True)), measured(case, Hessian())
    np.testing.assert_allclose(signed, expected, rtol=1e-9)
    assert absolute == abs(signed)


def test_hessian_takes_any_function(x64):
    params, direction = jnp.array([0.5, 2.0]), jnp.array([1.0, 0.0])
    found = (
        Hessian(signed=True).look(Point(rosenbrock, params), direction, STEP).curvature
    )
    np.testing.assert_allclose(found, 2 - 400 * (2.0 - 3 * 0.25), rtol=1e-12)


@each_case
def test_fisher_and_gauss_newton_agree_for_these_canonical_links(case, x64):
    fisher, gauss_newton = measured(case, Fisher()), measured(case, GaussNewton())
    np.testing.assert_allclose(fisher, gauss_newton, rtol=1e-9)


def test_weights_average_loss_gradient_and_curvature_alike(x64):
    whole, params = double("categorical, masked")
    kept = np.flatnonzero(MASK)
    subset = Objective(
        whole.predict, whole.likelihood, whole.inputs[kept], whole.targets[kept]
    )
    direction = random_direction(params)
    both = [
        (
            *jax.jit(jax.value_and_grad(objective))(params),
            measure(Fisher(), objective, params, direction),
        )
        for objective in (whole, subset)
    ]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), *both)


def test_a_masked_example_may_hold_anything():
    objective, params = CASES["categorical, masked"]()
    spoilt = dataclasses.replace(
        objective, targets=jnp.where(MASK == 0, -100, objective.targets)
    )
    assert spoilt(params) == objective(params)
    grads = jax.grad(spoilt)(params), jax.grad(objective)(params)
    jax.tree.map(np.testing.assert_array_equal, *grads)


def test_a_batch_of_masked_examples_has_loss_and_curvature_zero():
    objective, params = CASES["categorical, masked"]()
    empty = dataclasses.replace(objective, weights=jnp.zeros(6))
    assert empty(params) == 0
    assert measure(Fisher(), empty, params, params) == 0


def test_weights_of_another_length_are_refused():
    objective, params = CASES["categorical"]()
    with pytest.raises(ValueError, match=r"weights must have .* got \(5,\)"):
        dataclasses.replace(objective, weights=jnp.ones(5))(params)


def test_a_part_of_the_batch_is_measured_by_itself(x64):
    objective, params = double("gaussian, weighted")
    direction = random_direction(params)
    part = Objective(
        mlp,
        Gaussian(),
        objective.inputs[::2],
        objective.targets[::2],
        objective.weights[::2],
    )
    np.testing.assert_allclose(
        measure(Subsampled(Fisher(), 2, least=1), objective, params, direction),
        measure(Fisher(), part, params, direction),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    "curvature", [Fisher(), GaussNewton(), Subsampled(Fisher(), 2, least=1)]
)
def test_a_plain_function_is_refused_with_the_cure(curvature):
    with pytest.raises(TypeError, match=r"pass value_fn=Objective\("):
        curvature.look(Point(rosenbrock, jnp.ones(2)), jnp.ones(2), STEP)


def test_a_stride_below_one_is_refused():
    with pytest.raises(ValueError, match="every must lie in"):
        Subsampled(Fisher(), 0)


class Laplace(Likelihood):
    """A user's own likelihood: absolute error, whose Fisher information is one."""

    def loss(self, outputs, targets):
        return jnp.sum(abs(outputs - targets), axis=-1)

    def fisher(self, outputs, tangent):
        return jnp.sum(tangent**2, axis=-1)


def test_a_likelihood_of_ones_own_is_one_small_class():
    x = jax.random.normal(jax.random.key(0), (64, 3))
    y = mlp(mlp_params(), x)
    params = jax.tree.map(lambda leaf: leaf + 0.3, mlp_params())
    objective = Objective(mlp, Laplace(), x, y)
    optimiser = adam_qlr()
    state = optimiser.init(params)
    first = objective(params)

    step = jax.jit(lambda *carry: train_step(optimiser, objective, *carry)[:2])
    for _ in range(50):
        params, state = step(params, state)
    assert objective(params) < first / 3


def outputs_apart(values):
    return values


def examples_together(values):
    return jnp.sum(values)


@pytest.mark.parametrize(
    "method, reduce, message",
    [
        ("loss", examples_together, "got one for all"),
        ("fisher", examples_together, r"shape \(8,\), got \(\)"),
        ("fisher", outputs_apart, r"shape \(8,\), got \(8, 2\)"),
    ],
)
def test_a_likelihood_that_is_not_by_example_is_refused(method, reduce, message):
    """It would count other examples than there are, or curvatures of another mean."""

    class Own:
        def loss(self, outputs, targets):
            return jnp.sum((outputs - targets) ** 2, axis=-1) / 2

        def fisher(self, outputs, tangent):
            return jnp.sum(tangent**2, axis=-1)

    setattr(Own, method, lambda self, outputs, other: reduce((outputs - other) ** 2))
    objective = Objective(mlp, Own(), jnp.ones((8, 3)), jnp.zeros((8, 2)))
    with pytest.raises(ValueError, match=f"{method} of Own .* {message}"):
        one_step(adam_qlr(), objective, mlp_params())


@each_case
def test_the_probe_converges_to_the_exact_product(case, x64):
    objective, params = double(case)
    direction = random_direction(params)
    exact, errors = measured(case, Fisher()), []
    probe = looks_with(Probe(), objective, params, direction)
    for reach in (1e-2, 1e-3, 1e-4):
        look = probe(reach)
        assert look.trial is not None and look.trial.distance == reach
        errors.append(abs(look.curvature / exact - 1))
    # Forward differences: the error falls with the distance.
    assert errors[2] < errors[1] / 5 < errors[0] / 25 or errors[0] < 1e-9
    assert errors[2] < 1e-2


def test_the_probe_sees_the_loss_where_it_looks(x64):
    objective, params = double("poisson")
    direction = random_direction(params)
    trial = looks_with(Probe(), objective, params, direction)(0.05).trial
    there = jax.tree.map(lambda p, d: p - 0.05 * d, params, direction)
    assert trial is not None
    np.testing.assert_allclose(trial.change, objective(there) - objective(params))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_first_probe_is_neither_drowned_by_rounding_nor_far_off(dtype):
    objective, params = CASES["gaussian"]()
    cast = lambda tree: jax.tree.map(lambda leaf: leaf.astype(dtype), tree)
    direction = random_direction(params)
    exact = measure(Fisher(), objective, params, direction)
    probed = looks_with(Probe(), objective, cast(params), cast(direction))(0.0)
    np.testing.assert_allclose(probed.curvature, exact, rtol=0.2)


def test_the_probe_measures_gauss_newton_too(x64):
    objective, params = double("bernoulli")
    direction = random_direction(params)
    found = looks_with(Probe(GaussNewton()), objective, params, direction)(1e-4)
    exact = measured("bernoulli", GaussNewton())
    np.testing.assert_allclose(found.curvature, exact, rtol=1e-2)


@pytest.mark.parametrize(
    "case, count",
    [("gaussian", 6), ("categorical, masked", 4), ("attention, padded sequences", 8)],
)
def test_examples_are_counted_with_their_weights(case, count):
    objective, params = CASES[case]()

    @jax.jit
    def batch(params):
        outputs = objective.outputs(params)
        return objective.batch(outputs, objective.loss(outputs))

    assert batch(params).examples == count
