"""What the algorithms' names promise, against slow and obvious answers."""

import dataclasses

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from qlrstudy import paper
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.algorithms.baydin_sgd import hypergradient_descent
from qlrstudy.spec import Batch, DataOptions, Task
from qlrstudy.tasks import TASKS

DIABETES = TASKS["diabetes"]["paper"]
ROSENBROCK = TASKS["rosenbrock"]["shown"]


def _steps(task: Task, name: str, count: int, **settings) -> jax.Array:
    """Parameters after some full-batch steps, in one vector."""
    train = task.load(DataOptions()).train
    rows = [jnp.asarray(array) for array in train]
    batch = Batch(rows[0], rows[1], jnp.ones(len(rows[0])))
    algorithm = ALGORITHMS[name]
    stepper = algorithm.bind(task, {**algorithm.defaults, **settings})
    key = jax.random.key(0)
    carry = stepper.init(*task.init(key), batch, key)
    for _ in range(count):
        carry, _ = stepper.step(carry, batch, key)
    return jax.flatten_util.ravel_pytree(stepper.params(carry)[0])[0]


def test_sgd_full_adds_the_penalty_to_the_gradient():
    grad = jax.grad(lambda p: (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2)
    point, velocity = jnp.array([1.0, -1.0]), jnp.zeros(2)
    for _ in range(3):
        velocity = 0.9 * velocity + grad(point) + 0.1 * point
        point = point - 1e-4 * velocity
    settings = {"learning_rate": 1e-4, "momentum": 0.9, "weight_decay": 0.1}
    found = _steps(ROSENBROCK, "sgd-full", 3, **settings)
    np.testing.assert_allclose(found, point, rtol=1e-5)


def test_hypergradient_descent_raises_its_rate_while_gradients_agree():
    rule = hypergradient_descent(0.1, 0.01)
    state = rule.init(jnp.zeros(2))
    first, second = jnp.array([1.0, 2.0]), jnp.array([3.0, -1.0])
    _, state = rule.update(first, state)
    updates, state = rule.update(second, state)
    rate = 0.1 + 0.01 * (first @ second)
    np.testing.assert_allclose(jnp.asarray(updates), -rate * second, rtol=1e-6)


def test_rosenbrocks_residuals_make_its_function():
    x, y = 0.3, -1.2
    ones = jnp.ones((1, 1))
    outputs, _ = ROSENBROCK.predict(jnp.array([x, y]), ones, {}, training=True)
    loss = ROSENBROCK.likelihood.loss(outputs, jnp.zeros((1, 2)))
    expected = (1 - x) ** 2 + 100 * (y - x**2) ** 2
    np.testing.assert_allclose(loss, [expected], rtol=1e-6)


@pytest.mark.usefixtures("kfac_jax_installed")
def test_one_kfac_step_on_rosenbrock_is_a_gauss_newton_step():
    residuals = lambda p: jnp.array([1 - p[0], 10 * (p[1] - p[0] ** 2)]) * 2**0.5
    start = jnp.array([1.0, -1.0])
    jacobian, r = jax.jacobian(residuals)(start), residuals(start)
    step = jnp.linalg.solve(jacobian.T @ jacobian, jacobian.T @ r)
    settings = {"learning_rate": 1.0, "momentum": 0.0, "damping": 1e-6}
    moved = _steps(ROSENBROCK, "kfac-unadaptive", 1, **settings) - start
    # kfac-jax samples the Fisher, so only its sign along the step is certain.
    assert float(moved @ step) < 0


@pytest.mark.usefixtures("kfac_jax_installed")
def test_kfac_refuses_weights_it_has_no_kronecker_block_for():
    def predict(params, inputs, state, *, training, weights=None):
        del training, weights
        outputs = inputs @ jnp.sin(params["kernel"])
        return outputs.sum(axis=1, keepdims=True), state

    odd = dataclasses.replace(
        DIABETES,
        init=lambda key: ({"kernel": jax.random.normal(key, (10, 5))}, {}),
        predict=predict,
    )
    with pytest.raises(AssertionError, match="no Kronecker block"):
        _steps(odd, "kfac", 1)


def test_the_papers_hyperparameters_are_known_settings():
    known = 0
    titles = {theirs: ALGORITHMS[name] for name, theirs in paper.TITLES.items()}
    tasks = {scales["paper"].title: scales["paper"] for scales in TASKS.values()}
    for row in paper.table("hyperparameters"):
        algorithm, task = titles.get(row["algorithm"]), tasks[row["dataset"]]
        if algorithm is None:
            continue
        chosen = paper.hyperparameters(task, algorithm)
        assert set(chosen) <= {*algorithm.defaults, "batch_size"}
        known += 1
    assert known > 40


@pytest.mark.parametrize("name", ["sgd-minimal", "sgd-full"])
def test_an_empty_row_is_no_choice_of_the_papers(name):
    task = TASKS["rosenbrock"]["paper"]
    with pytest.raises(ValueError, match=f"no hyperparameters .*'{name}'$"):
        paper.hyperparameters(task, ALGORITHMS[name])
    assert paper.hyperparameters(task, ALGORITHMS["adam-untuned"]) == {}


def test_the_papers_results_are_read_as_numbers():
    found = paper.result(TASKS["uci-energy"]["paper"], ALGORITHMS["adamqlr-tuned"])
    assert found["training_loss"] == 0.000333
    assert found["total_steps"] == 4000
    assert paper.result(DIABETES, ALGORITHMS["adam"]) == {}
