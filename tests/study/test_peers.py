"""What sets each learning-rate-free peer apart, on a valley of two parameters."""

from typing import Any, NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.algorithms.adamw_cosine import rate
from qlrstudy.algorithms.averaging import polynomial_average
from qlrstudy.algorithms.muon import labels
from qlrstudy.models import GPT2, MLP, ResNet, batch_normed, plain
from qlrstudy.spec import Batch, BatchShape, Budget, DataOptions, Run, Stepper, Task
from qlrstudy.tasks import TASKS
from qlrstudy.training import loops

ROSENBROCK = TASKS["rosenbrock"]["shown"]
DIABETES = TASKS["diabetes"]["paper"]
KEY = jax.random.key(0)


class Walk(NamedTuple):
    """All carries of some full-batch steps, from the first, and all reports."""

    stepper: Stepper
    carries: list[Any]
    reports: list[Any]

    @property
    def evaluated(self) -> list[jax.Array]:
        return [self.stepper.params(carry)[0] for carry in self.carries]

    @property
    def stepped(self) -> list[jax.Array]:
        return [carry.params for carry in self.carries]


def _batch(task: Task) -> Batch:
    inputs, targets = map(jnp.asarray, task.load(DataOptions()).train)
    return Batch(inputs, targets, jnp.ones(len(inputs)))


def _walk(name: str, count: int, task: Task = ROSENBROCK) -> Walk:
    algorithm, batch = ALGORITHMS[name], _batch(task)
    stepper = algorithm.bind(task, {**algorithm.defaults, "steps": count})
    carries, reports = [stepper.init(*task.init(KEY), batch, KEY)], []
    step = jax.jit(stepper.step)
    for _ in range(count):
        carry, report = step(carries[-1], batch, KEY)
        carries.append(carry)
        reports.append(report)
    return Walk(stepper, carries, reports)


def _valley(point: jax.Array) -> jax.Array:
    return (1 - point[0]) ** 2 + 100 * (point[1] - point[0] ** 2) ** 2


def test_the_cosine_rises_to_the_rate_and_ends_at_zero():
    settings = {"learning_rate": jnp.float32(2.0), "steps": jnp.float32(200)}
    rates = np.asarray([rate(settings, jnp.float32(t)) for t in range(201)])
    assert rates[9] == rates.max() == 2
    assert (np.diff(rates[:10]) > 0).all() and (np.diff(rates[10:]) < 0).all()
    assert rates[200] == 0 < rates[199] < 0.001
    assert rates[105] == pytest.approx(1)  # half way down


@pytest.mark.parametrize(
    ("budget", "total"), [(Budget("steps", 6), 6), (Budget("epochs", 2), 4)]
)
def test_a_schedule_ends_with_the_run(budget, total):
    algorithm = ALGORITHMS["adamw-cosine"]
    data = jax.device_put(DIABETES.load(DataOptions()).train)
    shape = BatchShape(len(data.inputs) // 2 + 1)
    run = Run(DIABETES, algorithm, algorithm.defaults, shape, 0, budget)
    loop = loops.loop(run, data)
    _, reports = loop.advance(loop.init(), 0, total)
    settings = {**algorithm.defaults, "steps": jnp.float32(total)}
    expected = [rate(settings, jnp.float32(t)) for t in range(total)]
    np.testing.assert_allclose(reports.step_size, expected, rtol=1e-5)


def test_a_schedule_and_a_clock_do_not_go_together():
    algorithm = ALGORITHMS["adamw-cosine"]
    with pytest.raises(ValueError, match="'adamw-cosine'.*3 seconds; give epochs or"):
        Run(DIABETES, algorithm, {}, BatchShape(9), 0, Budget("seconds", 3.0))


@pytest.mark.parametrize("name", ["prodigy", "dadapt-adam"])
def test_the_estimated_distance_grows_and_never_falls(name):
    estimates = np.asarray([r.step_size for r in _walk(name, 40).reports])
    assert (np.diff(estimates) >= 0).all()
    assert estimates[0] == pytest.approx(1e-6) and estimates[-1] > 1e-5


def test_schedule_free_evaluates_the_average():
    walk = _walk("schedule-free-adam", 5)
    base = np.stack([carry.optimiser_state.z for carry in walk.carries[1:]])
    np.testing.assert_allclose(walk.evaluated[-1], base.mean(0), rtol=1e-5)
    # Gradients are taken in between, nearer to the average.
    between = 0.9 * walk.evaluated[-1] + 0.1 * base[-1]
    np.testing.assert_allclose(walk.stepped[-1], between, rtol=1e-5)


@pytest.mark.parametrize(("power", "weights"), [(0.0, [1, 1, 1]), (1.0, [1, 2, 3])])
def test_the_polynomial_average_weighs_late_iterates_more(power, weights):
    path = jnp.array([[0.0], [2.0], [-1.0], [5.0]])
    counter = Stepper(
        lambda params, state, batch, key: 0,
        lambda carry, batch, key: (carry + 1, None),
        lambda carry: (path[carry], {}),
    )
    stepper = polynomial_average(counter, power)
    carry = stepper.init(None, {}, None, KEY)
    for _ in range(3):
        carry, _ = stepper.step(carry, None, KEY)
    expected = np.average(path[1:], axis=0, weights=weights)
    np.testing.assert_allclose(stepper.params(carry)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["adam", "prodigy", "schedule-free"])
def test_an_average_is_evaluated_and_nothing_else_is_changed(name):
    plain = _walk("schedule-free-adam" if name == "schedule-free" else name, 6)
    averaged = _walk(f"{name}-average", 6)
    points = np.stack([carry.carry.params for carry in averaged.carries])
    np.testing.assert_array_equal(points, np.stack(plain.stepped))
    expected = points[0]
    for taken, point in enumerate(points[1:], 1):
        expected = expected + 9 / (8 + taken) * (point - expected)
    np.testing.assert_allclose(averaged.evaluated[-1], expected, rtol=1e-5)


def test_prodigys_cosine_begins_as_prodigy_and_ends_at_rest():
    walks = [_walk(name, 40) for name in ("prodigy", "prodigy-cosine")]
    first, last = (
        [np.abs(np.diff(walk.stepped, axis=0)[step]).max() for walk in walks]
        for step in (0, -1)
    )
    assert first[0] == first[1] > 0
    assert last[1] < 0.02 * last[0]


def test_dog_steps_by_distance_over_gradients_and_evaluates_their_average():
    walk = _walk("dog", 3)
    points = np.stack([carry.carry.params for carry in walk.carries])
    grads = np.stack([jax.grad(_valley)(point) for point in points[:-1]])
    norms = np.linalg.norm(points - points[0], axis=1)
    distances = np.maximum.accumulate([1e-6 * (1 + 2**0.5), *norms[1:-1]])
    sizes = distances / np.sqrt(np.cumsum((grads**2).sum(1)))
    np.testing.assert_allclose([r.step_size for r in walk.reports], sizes, rtol=1e-4)
    # Steps this short are lost in the last digits of one, so the weights hardly show.
    assert not np.array_equal(walk.evaluated[-1], points[-1])


def test_dowg_weighs_gradients_by_the_squared_distance():
    walk = _walk("dowg", 2)
    first, second, _ = np.stack(walk.stepped)
    weighed, squared = 0.0, 1e-4
    for point, report in zip((first, second), walk.reports, strict=True):
        squared = max(squared, ((point - first) ** 2).sum())
        weighed += squared * (np.asarray(jax.grad(_valley)(point)) ** 2).sum()
        assert report.step_size == pytest.approx(squared / weighed**0.5, rel=1e-5)


def test_mechanic_scales_the_sum_of_adams_steps():
    walk = _walk("mechanic-adam", 1)
    adam = optax.adam(1.0)
    grad = jax.grad(_valley)(walk.stepped[0])
    step, _ = adam.update(grad, adam.init(grad))
    moved = walk.reports[0].step_size * jnp.asarray(step)
    np.testing.assert_allclose(walk.stepped[1], walk.stepped[0] + moved, rtol=1e-6)


def test_polyaks_step_would_reach_zero_if_the_loss_were_linear():
    walk = _walk("polyak-sgd", 1)
    start, end = walk.stepped
    grad = jax.grad(_valley)(start)
    assert float(_valley(start) + grad @ (end - start)) == pytest.approx(0, abs=1e-3)


def test_momo_goes_no_further_than_adam_at_its_largest_rate():
    walk = _walk("momo-adam", 30)
    rule = optax.adam(ALGORITHMS["momo-adam"].defaults["max_learning_rate"])
    state, ratios = rule.init(walk.stepped[0]), []
    for start, end in zip(walk.stepped[:-1], walk.stepped[1:], strict=True):
        step, state = rule.update(jax.grad(_valley)(start), state)
        ratios.append(float(jnp.linalg.norm(end - start) / jnp.linalg.norm(step)))
    assert max(ratios) == pytest.approx(1, rel=1e-3)


def test_no_coordinate_moves_further_than_sophias_rate():
    walk = _walk("sophia", 12)
    rate, decay = ALGORITHMS["sophia"].defaults.values()
    points = np.stack(walk.stepped)
    moved = np.diff(points, axis=0) + rate * decay * points[:-1]
    assert abs(moved).max() == pytest.approx(rate, rel=1e-2)
    # A Hessian's diagonal is known from the second step on.
    assert jnp.all(walk.carries[1].optimiser_state[0].nu != 0)


@pytest.mark.parametrize(
    ("network", "hidden"),
    [
        (plain(MLP((7, 7), 3), (5,)), {"Dense_0", "Dense_1"}),
        (
            batch_normed(ResNet(width=4, blocks=(1, 1)), (32, 32, 3)),
            {"_Block_0/Conv_0", "_Block_0/Conv_1"}
            | {f"_Block_1/Conv_{i}" for i in range(3)},
        ),
        (
            plain(GPT2(50, 16, 3, 2, 32), (8,), jnp.int32),
            {f"Dense_{i}" for i in range(12)},
        ),
    ],
    ids=["MLP", "ResNet", "GPT-2"],
)
def test_muon_has_the_hidden_matrices_and_no_others(network, hidden):
    params, _ = jax.eval_shape(network.init, KEY)
    found = jax.tree_util.tree_leaves_with_path(labels(params))
    muons = {
        jax.tree_util.keystr(path, simple=True, separator="/")
        for path, label in found
        if label == "muon"
    }
    assert muons == {f"{name}/kernel" for name in hidden}


def test_muon_orthogonalises_matrices_and_leaves_the_rest_to_adam():
    walk = _walk("muon", 1, DIABETES)
    start, end = walk.stepped
    moved = jax.tree.map(lambda new, old: np.asarray(new - old), end, start)
    values = np.linalg.svd(moved["Dense_0"]["kernel"], compute_uv=False)
    # Five Newton-Schulz steps leave singular values between 0.5 and 1.5 or so; a matrix
    # that is wider than high is scaled by the root of that ratio.
    units = values / 0.02 / np.sqrt(50 / 10)
    assert (units > 0.4).all() and (units < 1.6).all()
    rest = [moved["Dense_0"]["bias"], *moved["Dense_1"].values()]
    # Adam's first step is its rate, whatever the gradient, where there is one.
    sizes = abs(jax.flatten_util.ravel_pytree(rest)[0])
    np.testing.assert_allclose(sizes[sizes > 0], 3e-4, rtol=1e-3)
