"""The paper's statistics, against code so slow that one sees it is right."""

import math
import statistics

import numpy as np
import pytest

from qlrstudy.report import statistics as report_statistics
from qlrstudy.report.contents import contents
from qlrstudy.report.figures import svg
from qlrstudy.report.load import load
from qlrstudy.report.page import html
from qlrstudy.report.statistics import (
    SAMPLES,
    bootstrap,
    estimate,
    evaluation_curve,
    evolution_curve,
    finals,
    held,
    last_finite,
)
from report_cases import small_study, stored


def _slow_bootstrap(columns: list[list[float]]) -> list[tuple[float, float]]:
    """Column by column, sample by sample, with the standard library."""
    count = len(columns[0])
    draws = np.random.default_rng(0).integers(count, size=(SAMPLES, count)).tolist()
    answers = []
    for column in columns:
        medians = [statistics.median([column[i] for i in draw]) for draw in draws]
        answers.append((statistics.fmean(medians), statistics.pstdev(medians)))
    return answers


@pytest.mark.parametrize("runs", [1, 2, 7, 50])
def test_bootstrap_is_the_slow_obvious_one(runs):
    values = np.random.default_rng(runs).lognormal(size=(runs, 5))
    mean, error = bootstrap(values)
    slow = _slow_bootstrap(values.T.tolist())
    np.testing.assert_allclose(mean, [m for m, _ in slow], rtol=1e-12)
    np.testing.assert_allclose(error, [e for _, e in slow], rtol=1e-9, atol=1e-15)


def test_equal_runs_have_no_error_at_all():
    assert estimate([0.1] * 10) == (0.1, 0.0)
    assert estimate([0.3]) == (0.3, 0.0)
    assert math.isnan(estimate([math.nan]).value)


def test_a_value_that_is_not_finite_keeps_the_last_that_is():
    values = np.array([np.nan, 1.0, np.inf, np.nan, 3.0, np.nan])
    slow, last = [], math.nan
    for value in values:
        last = value if math.isfinite(value) else last
        slow.append(last)
    np.testing.assert_array_equal(held(values), slow)


def test_a_run_that_diverged_counts_with_its_last_finite_values(tmp_path):
    run = stored(tmp_path, losses=(1.0, 0.5, math.nan), status="diverged")
    assert last_finite(run)["test_loss"] == 0.75
    # It trained on to where it diverged.
    times = [last_finite(run)[name] for name in ("step", "epoch", "training_seconds")]
    assert times == [20, 10, 2.0]
    assert finals([run])["test_loss"].value == 0.75
    # The last finite minibatch is later than the last finite evaluation.
    assert run.minibatch_loss == last_finite(run)["minibatch_training_loss"]


def _three_runs(store, **options):
    stored(store, seed=0, losses=(1.0, 0.5, 0.2, 0.1), **options)
    stored(store, seed=1, losses=(1.2, 0.6, 0.3), status="diverged", **options)
    stored(store, seed=2, losses=(0.9, 0.4, 0.25, 0.15), **options)
    return load(store).runs


def test_curves_on_the_step_axis_are_the_slow_obvious_ones(tmp_path):
    runs = _three_runs(tmp_path)
    curve = evaluation_curve(runs)
    assert curve.steps.tolist() == [0, 10, 20, 30]
    assert curve.epochs.tolist() == [0, 5, 10, 15]
    np.testing.assert_allclose(curve.seconds, [0, 1, 2, 3])
    losses = {run.seed: run.records["test_loss"].tolist() for run in runs}
    losses[1].append(losses[1][-1])  # ended early: its last value stays
    columns = [[losses[run.seed][i] for run in runs] for i in range(4)]
    slow = _slow_bootstrap(columns)
    np.testing.assert_allclose(curve.bands["test_loss"].mean, [m for m, _ in slow])
    np.testing.assert_allclose(curve.bands["test_loss"].error, [e for _, e in slow])
    assert "test_accuracy" not in curve.bands


def test_runs_of_equal_time_are_compared_at_times(tmp_path):
    stored(tmp_path, seed=0, losses=(1.0, 0.5, 0.2), budget={"seconds": 4.0})
    stored(
        tmp_path,
        seed=1,
        losses=(1.0, 0.5, 0.2),
        budget={"seconds": 4.0},
        seconds_per_step=0.2,
    )
    curve = evaluation_curve(load(tmp_path).runs)
    assert (curve.seconds[0], curve.seconds[-1]) == (0.0, 4.0)
    # Up to 2 s both go on, one at twice the steps; then it stays at its 20.
    early, late = np.searchsorted(curve.seconds, [1.0, 3.0])
    assert curve.steps[early] == pytest.approx(7.5 * curve.seconds[early])
    assert curve.steps[late] == pytest.approx((20 + 5 * curve.seconds[late]) / 2)


@pytest.mark.parametrize("budget", [{"seconds": 4.0}, {"epochs": 20}])
def test_a_curve_never_goes_back_in_time(tmp_path, budget):
    # The slow one ends first, or the fast one does: either would pull a median back.
    losses = (1.0, 0.5, 0.4, 0.3, 0.2)
    for seed, (count, pace) in enumerate([(3, 0.5), (5, 0.1), (5, 0.2), (2, 0.05)]):
        options = {"budget": budget, "seconds_per_step": pace}
        stored(tmp_path, seed=seed, losses=losses[:count], **options)
    curve = evaluation_curve(load(tmp_path).runs)
    for axis in (curve.steps, curve.epochs, curve.seconds):
        assert np.all(np.diff(axis) >= 0)


def test_what_runs_ended_with_is_computed_as_each_number_alone(tmp_path):
    runs = _three_runs(tmp_path)
    ends = finals(runs)
    for name in ("training_loss", "test_loss", "step", "test_accuracy", "damping"):
        alone = estimate([last_finite(run)[name] for run in runs])
        np.testing.assert_array_equal(ends[name], alone)


def test_evolutions_have_what_the_algorithm_has(tmp_path):
    adam = evolution_curve([stored(tmp_path)])
    assert adam is not None and list(adam.bands) == ["step_size"]
    qlr = evolution_curve([stored(tmp_path, algorithm="adamqlr-tuned")])
    assert qlr is not None and list(qlr.bands) == ["step_size", "damping"]
    assert qlr.steps[0] == 1 and qlr.steps[-1] == 20
    np.testing.assert_allclose(qlr.bands["damping"].mean[[0, -1]], [1e-3, 1e-6], 1e-5)


def test_each_estimate_is_computed_once(tmp_path, monkeypatch):
    small_study(tmp_path)
    inputs: list[bytes] = []

    def counted(values):
        inputs.append(values.tobytes())
        return bootstrap(values)

    monkeypatch.setattr(report_statistics, "bootstrap", counted)
    found = contents(tmp_path)
    assert len(inputs) == len(set(inputs)) > 0
    inputs.clear()
    html(found)
    for chart in found.charts:
        svg(chart)
    assert inputs == []  # what is drawn and written is finished before


def test_the_gap_is_test_minus_training_and_its_error_the_sum(tmp_path):
    runs = _three_runs(tmp_path)
    ends = finals(runs)
    test, training = ends["test_loss"], ends["minibatch_training_loss"]
    gap = ends["generalisation_gap"]
    assert gap.value == pytest.approx(test.value - training.value)
    assert gap.error == pytest.approx(test.error + training.error)
