"""One run: the same by its seed, wherever it was cut, and what it says is true."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.spec import BatchShape, Budget, DataOptions, Run
from qlrstudy.store.runs import RunDirectory
from qlrstudy.tasks import TASKS
from qlrstudy.training import loops
from qlrstudy.training.evaluate import evaluate
from qlrstudy.training.train import Outcome, train

DIGITS = TASKS["digits"]["paper"]
DATA = DIGITS.load(DataOptions())


def _run(algorithm: str = "adam", seed: int = 0, steps: int = 60, **settings) -> Run:
    chosen = ALGORITHMS[algorithm]
    shape = BatchShape(200)
    settings = {**chosen.defaults, **settings}
    return Run(DIGITS, chosen, settings, shape, seed, Budget("steps", steps))


def _steps(outcome: Outcome) -> np.ndarray:
    return np.stack(RunDirectory(outcome.path).steps())


def test_a_seed_decides_every_step(tmp_path):
    one, again, other = (
        train(_run("adamqlr-untuned", seed), DATA, tmp_path / name)
        for seed, name in ((0, "one"), (0, "again"), (1, "other"))
    )
    np.testing.assert_array_equal(_steps(one), _steps(again))
    assert not np.array_equal(_steps(one), _steps(other))


@pytest.mark.parametrize("algorithm", ["adamqlr-untuned", "kfac"])
def test_an_interrupted_run_goes_on_bit_for_bit(algorithm, request, tmp_path):
    if algorithm == "kfac":
        request.getfixturevalue("kfac_jax_installed")
    run = _run(algorithm, steps=14)
    whole = train(run, DATA, tmp_path / "whole")
    interrupted = train(run, DATA, tmp_path / "cut", should_stop=lambda: True)
    assert interrupted.status == "interrupted"
    assert 0 < interrupted.record.step < 14
    rest = train(run, DATA, tmp_path / "cut")
    assert rest.status == "finished"
    np.testing.assert_array_equal(_steps(whole), _steps(rest))
    assert rest.record.test_loss == whole.record.test_loss


@pytest.mark.parametrize("algorithm", ["adam", "adamqlr-untuned", "adamqlr", "kfac"])
def test_a_minibatch_has_the_accuracy_it_had_before_its_step(
    algorithm, request, tmp_path
):
    if algorithm == "kfac":
        request.getfixturevalue("kfac_jax_installed")
    all_of_it = dataclasses.replace(_run(algorithm, steps=2), shape=BatchShape(10_000))
    outcome = train(all_of_it, DATA, tmp_path)
    before, after, last = RunDirectory(outcome.path).records()
    assert np.isnan(before.minibatch_training_accuracy)
    assert after.minibatch_training_accuracy == pytest.approx(before.training_accuracy)
    if algorithm != "adamqlr":  # which is evaluated at an average
        assert last.minibatch_training_accuracy == pytest.approx(
            after.training_accuracy
        )


def test_a_finished_run_is_not_done_again(tmp_path):
    run = _run("adamqlr-untuned")
    first = train(run, DATA, tmp_path)
    again = train(run, DATA, tmp_path)
    assert again == first._replace(found=True)


def test_divergence_ends_a_run_and_keeps_what_led_there(tmp_path):
    outcome = train(_run("sgd-minimal", learning_rate=1e30), DATA, tmp_path)
    losses = _steps(outcome)[0]
    assert outcome.status == "diverged"
    assert np.isfinite(losses[:-1]).all()
    assert not np.isfinite(losses[-1])
    assert outcome.record.step == len(losses) < 60


@pytest.mark.usefixtures("kfac_jax_installed")
def test_a_loss_of_zero_ends_a_run_well(tmp_path):
    # Gauss and Newton's step is exact in the valley; the next one would be NaN.
    task, kfac = TASKS["rosenbrock"]["shown"], ALGORITHMS["kfac-untuned"]
    run = Run(task, kfac, kfac.defaults, BatchShape(1), 0, Budget("steps", 200))
    outcome = train(run, task.load(DataOptions()), tmp_path)
    assert outcome.status == "finished"
    assert outcome.record.training_loss == 0
    assert outcome.record.step < 200


def test_both_training_losses_are_what_their_names_say(tmp_path):
    run = _run("sgd-minimal", steps=1, learning_rate=0.0)
    outcome = train(run, DATA, tmp_path)
    params, state = DIGITS.init(loops._keys(run).init)
    inputs = jnp.asarray(DATA.train.inputs)
    outputs, _ = DIGITS.predict(params, inputs, state, training=False)
    losses = DIGITS.likelihood.loss(outputs, DATA.train.targets)
    assert outcome.record.training_loss == pytest.approx(float(losses.mean()), rel=1e-5)

    order = jax.random.fold_in(loops._keys(run).order, 0)
    indices, _ = DIGITS.sampling.epoch(order, len(losses), run.shape)
    minibatch = float(losses[indices[0]].mean())
    assert outcome.record.minibatch_training_loss == pytest.approx(minibatch, rel=1e-5)


def test_the_last_batch_counts_the_examples_it_has(tmp_path):
    run = dataclasses.replace(
        _run("sgd-minimal", learning_rate=0.0), budget=Budget("epochs", 1)
    )
    train_ = jax.device_put(DATA.train)
    loop = loops.loop(run, train_)
    _, reports = loop.advance(loop.init(), 0, loop.steps_per_epoch)
    sizes = np.full(loop.steps_per_epoch, 200)
    sizes[-1] = len(DATA.train.inputs) - sizes[:-1].sum()
    params, state = DIGITS.init(loops._keys(run).init)
    whole = evaluate(DIGITS, params, state, train_).loss
    assert np.average(reports.loss, weights=sizes) == pytest.approx(whole, rel=1e-5)


def test_stepwise_and_compiled_loops_agree():
    run = _run("adamqlr-untuned")
    split = jax.device_put(DATA.train)
    reports = []
    for make in (loops._compiled_loop, loops._stepwise_loop):
        loop = make(run, split)
        reports.append(loop.advance(loop.prepare(loop.init()), 0, 9)[1])
    # Two programs round differently; nine steps do not let that grow.
    np.testing.assert_allclose(reports[0].loss, reports[1].loss, rtol=1e-3)


def test_a_budget_in_seconds_is_kept(tmp_path):
    run = dataclasses.replace(_run(), budget=Budget("seconds", 0.3))
    outcome = train(run, DATA, tmp_path)
    assert outcome.status == "finished"
    assert 0.3 <= outcome.record.training_seconds < 1.5


def test_a_sweep_of_text_counts_each_token_once():
    task = TASKS["penn-treebank"]["paper"]
    indices, weights = task.sampling.sweep(1003, BatchShape(3, 10))
    places = indices[..., None] + jnp.arange(10)
    counted = np.zeros(1003)
    np.add.at(counted, np.asarray(places), np.asarray(weights))
    np.testing.assert_array_equal(counted, 1)


@pytest.mark.parametrize(
    ("unit", "amount"),
    [("epochs", 0), ("steps", 1.5), ("seconds", float("nan")), ("hours", 1)],
)
def test_a_budget_is_a_positive_amount_of_a_unit(unit, amount):
    with pytest.raises(ValueError, match=f"budget.*{unit}"):
        Budget(unit, amount)


def test_evaluations_of_a_dead_process_past_its_checkpoint_do_not_stay(tmp_path):
    """With a budget in seconds, the process that goes on may never come so far."""
    run = dataclasses.replace(_run(), budget=Budget("seconds", 0.3))
    cut = train(run, DATA, tmp_path, should_stop=lambda: True)
    directory = RunDirectory(cut.path)
    stale = cut.record._replace(step=10**9, training_seconds=0.29, test_loss=-1.0)
    directory.append_record(stale)
    outcome = train(run, DATA, tmp_path)
    assert outcome.status == "finished" and outcome.record.step < 10**9
    assert train(run, DATA, tmp_path).record[:3] == outcome.record[:3]
    assert all(record.test_loss >= 0 for record in directory.records())


@pytest.mark.parametrize("name", ["checkpoint.npz", "steps.f32", "records.jsonl"])
def test_a_run_whose_checkpoint_is_damaged_starts_over_and_says_so(name, tmp_path):
    run = _run("adamqlr-untuned", steps=14)
    whole = train(run, DATA, tmp_path / "whole")
    cut = train(run, DATA, tmp_path / "cut", should_stop=lambda: True)
    path = cut.path / name
    path.write_bytes(path.read_bytes()[:-5])
    again = train(run, DATA, tmp_path / "cut")
    assert str(path) in again.damage
    np.testing.assert_array_equal(_steps(whole), _steps(again))
    assert again.record.test_loss == whole.record.test_loss


def test_a_checkpoint_of_another_network_is_not_taken_up(tmp_path):
    run = _run(steps=14)
    cut = train(run, DATA, tmp_path, should_stop=lambda: True)
    directory = RunDirectory(cut.path)
    checkpoint = directory.restore()
    directory.save(checkpoint._replace(leaves=checkpoint.leaves[:-1]))
    assert "another version" in train(run, DATA, tmp_path).damage


def test_a_finished_run_with_cut_evaluations_is_done_again(tmp_path):
    run = _run(steps=14)
    first = train(run, DATA, tmp_path)
    path = first.path / "records.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    again = train(run, DATA, tmp_path)
    assert str(path) in again.damage
    assert again.record.test_loss == first.record.test_loss
    assert train(run, DATA, tmp_path).damage == ""
