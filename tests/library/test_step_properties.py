"""Whole steps of the method on numbers from one end of float64 to the other."""

import math

import hypothesis
import pytest
import torch
from hypothesis import strategies as st

import adamqlr.torch  # noqa: F401 - registers how to select its scalars
from adamqlr import step
from adamqlr.measurements import Batch, Measurement, Scale, Trial
from adamqlr.settings import ANY_LOSS, PAPER, Average, Damping, Horizon, KLBudget, Rule

SIZES = [0.0, 5e-324, 1e-160, 1e-8, 1.0, 3.0, 1e16, 1e155, 1.7e308, math.inf, math.nan]
sizes = st.sampled_from(SIZES)
numbers_of_any_size = st.sampled_from([*SIZES, *[-size for size in SIZES]])
counts = st.sampled_from([0.0, 1.0, 7.0, 8.0, 2.0**53, math.inf, math.nan])
COUNTED = dict.fromkeys(["examples", "steps", "rejections"], counts)


def extreme(kind, **own):
    """Values of a named tuple, each field as given or any number."""
    fields = dict.fromkeys(kind._fields, numbers_of_any_size) | own
    return st.builds(kind, **fields)


extreme_batches = extreme(
    Batch,
    examples=st.sampled_from([1.0, 3.0, 1e16, math.nan]),
    scale=st.none() | extreme(Scale),
    least=st.none() | numbers_of_any_size,
    chance=st.none() | st.sampled_from([0.0, 1e-300, math.log(2), 1e300]),
)
extreme_measurements = extreme(
    Measurement,
    square_norm=sizes,
    rounding=sizes,
    distance=st.none() | sizes,
    looked=st.booleans(),
    sound=st.booleans(),
    batch=extreme_batches,
    farthest=st.none() | sizes,
)
extreme_trials = st.none() | extreme(
    Trial, distance=sizes, change=st.none() | numbers_of_any_size
)
RULES = {
    "default": Rule(),
    "damping and horizon": Rule(Damping(), horizon=Horizon(10)),
    "no budget to speak of": Rule(budget=KLBudget(1e300, 0.0, 0.0), curvature_decay=0),
    "paper": PAPER,
    "any loss": ANY_LOSS,
}


def tensors(value):
    """Each float of a nested value as a tensor; truths stay."""
    if isinstance(value, tuple):
        return type(value)(*map(tensors, value))
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    return value


def whole_step(rule, memory, measurement, trial, factor):
    """All that the method says of one step, as plain numbers."""
    due = step.is_due(rule, memory)
    reach = step.reach(memory, measurement.loss, measurement.slope, measurement.batch)
    proposal = step.propose(rule, memory, measurement, factor)
    after, info = step.judge(rule, memory, measurement, proposal, trial)
    weight = step.averaging_weight(Average(), after, info)
    return [float(x) for x in (due, reach, weight, *after, *info)]


@pytest.mark.parametrize("rule", RULES)
@hypothesis.settings(max_examples=100, deadline=None, derandomize=True)
@hypothesis.given(
    memory=extreme(step.Memory, uncounted=st.just(0.0), **COUNTED),
    measurement=extreme_measurements,
    trial=extreme_trials,
    factor=st.sampled_from([0.0, 1e-300, 0.1, 1.0]),
)
def test_plain_numbers_never_raise_and_make_the_step_of_tensors(
    rule, memory, measurement, trial, factor
):
    rule = RULES[rule]
    found = whole_step(rule, memory, measurement, trial, factor)
    expected = whole_step(rule, *map(tensors, (memory, measurement, trial)), factor)
    assert found == pytest.approx(expected, rel=1e-12, abs=0, nan_ok=True)
