import math

import jax.numpy as jnp
import numpy as np
import pytest

from adamqlr import rules
from adamqlr.settings import check_range
from oracles import brute_force_minimum


@pytest.mark.parametrize("slope, bend", [(2.0, 3.0), (-1.5, 0.7), (1e-3, 40.0)])
def test_step_size_minimises_the_model(slope, bend):
    model = lambda alpha: rules.predicted_change(alpha, slope, bend)
    found = brute_force_minimum(model, -10, 10)
    assert rules.step_size(slope, bend) == pytest.approx(found, abs=1e-6)


def test_a_flat_direction_gives_a_step_of_zero():
    assert rules.step_size(0.0, 0.0) == 0
    assert rules.step_size(0.0, -1.0) == 0


def test_a_step_of_zero_leaves_the_damping():
    predicted = rules.predicted_change(0.0, 0.0, 0.0)
    ratio = rules.reduction_ratio(0.0, predicted, resolution=1e-7)
    assert rules.next_damping(0.1, ratio, 0.5, 2.0, 1e-8) == 0.1


@pytest.mark.parametrize(
    "ratio, expected",
    [
        (1.0, 0.05),
        (0.7501, 0.05),
        (0.75, 0.1),
        (0.25, 0.1),
        (0.2499, 0.3),
        (-5.0, 0.3),
        (-math.inf, 0.3),
        (math.nan, 0.1),
    ],
)
@pytest.mark.parametrize("kind", [float, jnp.float32, np.float64])
def test_damping_changes_only_beyond_the_thresholds(ratio, expected, kind):
    found = rules.next_damping(kind(0.1), kind(ratio), 0.5, 3.0, 1e-8)
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_damping_stays_between_floor_and_ceiling():
    assert rules.next_damping(1e-8, 1.0, 0.5, 2.0, 1e-8) == 1e-8
    ceiling = rules.DAMPING_CEILING
    assert rules.next_damping(ceiling, 0.0, 0.5, 2.0, 1e-8) == ceiling


@pytest.mark.parametrize("value, expected", [(0.5, 0.5), (3, 2.0), (-3, -2), (-1, -1)])
def test_a_limit_cuts_the_size_and_keeps_the_sign(value, expected):
    assert rules.shortened(value, abs(value) / 2.0) == expected


def test_divergence_of_a_shortened_step_is_the_budget():
    curvature, budget = 3.0, 0.01
    excess = (rules.kl_divergence(0.7, curvature) / budget) ** 0.5
    step_size = rules.shortened(0.7, excess)
    assert rules.kl_divergence(step_size, curvature) == pytest.approx(budget)


def test_a_parabola_bends_as_much_as_its_height_demands():
    parabola = lambda a: 0.7 - 2.0 * a + 1.5 * a * a
    lowest = parabola(2 / 3)
    assert rules.least_curvature(2.0, 0.7 - lowest) == pytest.approx(3.0)


@pytest.mark.parametrize("height", [0.0, -1e-9])
def test_a_loss_at_its_lowest_demands_no_curvature(height):
    assert rules.least_curvature(2.0, height) == 0


def test_change_at_a_distance_is_exact_on_a_parabola():
    parabola = lambda a: -2.0 * a + 1.5 * a * a
    found = rules.change_at(0.4, 2.0, distance=0.1, change=parabola(0.1))
    assert found == pytest.approx(parabola(0.4))
    assert rules.change_at(0.3, 5.0, distance=0.3, change=0.7) == pytest.approx(0.7)


def test_ratio_is_one_where_the_model_is_right():
    change = rules.predicted_change(0.3, 2.0, 5.0)
    assert rules.reduction_ratio(change, change, resolution=1e-7) == 1


def test_a_change_hidden_by_rounding_is_no_reason_to_distrust():
    assert rules.reduction_ratio(1e-8, -1e-12, resolution=1e-7) == 1
    assert rules.reduction_ratio(1e-3, -1e-12, resolution=1e-7) < 0
    assert rules.reduction_ratio(0.0, -1e-3, resolution=1e-7) == 0


def test_pooled_variance_is_that_of_the_pool():
    a, b = np.array([1.0, 5.0, 2.0]), np.array([40.0, 44.0])
    found = rules.pooled_variance(a.mean(), a.var(), b.mean(), b.var(), 2 / 5)
    assert found == pytest.approx(np.concatenate([a, b]).var())


def test_a_running_mean_begins_with_what_it_sees_first():
    assert rules.running_mean(0.0, 3.0, 0.9) == 3.0
    assert rules.running_mean(3.0, 5.0, 0.9) == pytest.approx(3.2)


@pytest.mark.parametrize("value", [-1, 0, math.nan, math.inf])
def test_a_bad_setting_is_named_with_its_value_and_range(value):
    with pytest.raises(ValueError, match=rf"pace must lie in \(0, 1\], got {value}"):
        check_range("pace", value, 0, 1, open_low=True)
