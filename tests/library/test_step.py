"""The method by itself, on plain numbers and on the frameworks' scalars."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import pytest
import torch

import adamqlr.jax
import adamqlr.torch  # noqa: F401 - both register how to select their scalars
from adamqlr import step
from adamqlr.measurements import Batch, Measurement, Scale, Trial
from adamqlr.memory import begin
from adamqlr.rules import Limit
from adamqlr.settings import PAPER, Damping, Horizon, KLBudget, Rule

UNDAMPED = dataclasses.replace(PAPER, damping=None)


def measured(**changes):
    """A slope of 2 and a curvature of 4 along a direction of length 1."""
    return Measurement(
        loss=5.0,
        slope=2.0,
        square_norm=1.0,
        curvature=4.0,
        distance=None,
        looked=True,
        sound=True,
        rounding=1e-15,
        batch=None,
    )._replace(**changes)


def judged(rule, measurement, trial=None, memory=None):
    """What a whole step makes of a measurement."""
    memory = begin(rule) if memory is None else memory
    proposal = step.propose(rule, memory, measurement)
    return step.judge(rule, memory, measurement, proposal, trial)


def batch(examples=8.0, scale=None, least=None):
    return Batch(examples, scale, least)


@pytest.mark.parametrize("kind", ["jax", "jitted", "torch"])
def test_examples_are_counted_past_what_float32_can_tell_apart(kind):
    """At 2^24 a float32 plus one is itself."""
    rule, few = Rule(), batch(1.0)
    many = begin(rule)._replace(examples=2.0**24)
    count = lambda memory: step.propose(rule, memory, measured(batch=few)).memory
    if kind == "torch":
        memory = step.Memory(*[torch.tensor(x, dtype=torch.float32) for x in many])
    else:
        memory = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), many)
        count = jax.jit(count) if kind == "jitted" else count
    for _ in range(99):
        memory = count(memory)
    assert float(memory.examples) + float(memory.uncounted) == 2**24 + 99


def test_a_proposal_is_the_model_s_minimum():
    proposal = step.propose(UNDAMPED, begin(UNDAMPED), measured())
    assert proposal.step_size == 0.5 and proposal.predicted_change == -0.5
    assert proposal.limit == Limit.MODEL


def test_damping_shortens_and_rescaling_multiplies():
    rule = dataclasses.replace(PAPER, damping=Damping(1.0), rescale=3.0)
    proposal = step.propose(rule, begin(rule), measured())
    assert proposal.bend == 5 and proposal.step_size == pytest.approx(3 * 2 / 5)


def test_a_budget_cuts_the_step_to_its_nats():
    rule = dataclasses.replace(UNDAMPED, budget=KLBudget(1e-3, decay=0.5, power=0.75))
    proposal = step.propose(rule, begin(rule), measured(batch=batch(16.0)))
    assert proposal.limit == Limit.KL_BUDGET
    assert proposal.step_size**2 * 4 / 2 == pytest.approx(1e-3 / 16**0.5 * 8)
    assert proposal.memory.examples == 16


def test_nats_are_counted_in_the_targets_scale():
    rule = dataclasses.replace(UNDAMPED, budget=KLBudget(1e-3, decay=0.0, power=1.0))
    scale = Scale(mean=3.0, variance=4.0, error=1.0)
    proposal = step.propose(rule, begin(rule), measured(batch=batch(scale=scale)))
    assert proposal.dispersion == 4
    assert proposal.step_size**2 * 4 / 2 == pytest.approx(4 * 8e-3)
    memory = proposal.memory
    assert (memory.mean, memory.variance, memory.error) == (3.0, 4.0, 1.0)


def test_the_height_of_the_loss_bounds_the_step():
    rule = dataclasses.replace(UNDAMPED, budget=KLBudget(1e9))
    flat = measured(curvature=0.0, batch=batch(least=1.0))
    proposal = step.propose(rule, begin(rule), flat)
    assert proposal.curvature == pytest.approx(2**2 / (2 * (5 - 1)))


def test_a_schedule_s_factor_comes_after_the_limits():
    rule = dataclasses.replace(UNDAMPED, budget=KLBudget(1e-3))
    sizes = [
        step.propose(rule, begin(rule), measured(batch=batch()), factor).step_size
        for factor in (1, 0.25)
    ]
    assert sizes[1] == sizes[0] / 4


def test_with_a_budget_every_step_goes_forward():
    """A batch that would rather go back says how far, the direction says where to."""
    rule = dataclasses.replace(UNDAMPED, budget=KLBudget(1e9))
    for orientation in (1.0, -1.0):  # of directions that point uphill, and downhill
        memory, info = judged(rule, measured(slope=2 * orientation, batch=batch()))
        assert info.step_size == step.BEYOND_MINIMUM * orientation / 2
        against = measured(slope=-1 * orientation, batch=batch())
        info = judged(rule, against, memory=memory)[1]
        assert info.step_size == step.BEYOND_MINIMUM * orientation / 4
        assert info.limit == Limit.MODEL


def test_a_budget_is_spent_on_directions_of_the_usual_length():
    """One that is twice as long goes twice as far, as Adam's would."""
    rule = dataclasses.replace(
        UNDAMPED, budget=KLBudget(1e-3, decay=0.0), curvature_decay=0.5
    )
    memory, first = judged(rule, measured(batch=batch()))
    assert memory.square_norm == 1
    for longer in (2.0, 0.5):
        square = longer**2
        long = measured(square_norm=square, curvature=4 * square, slope=2 * longer)
        after, info = judged(rule, long._replace(batch=batch()), memory=memory)
        assert after.square_norm == pytest.approx(0.9 + 0.1 * square)
        expected = first.step_size / after.square_norm**0.5
        assert info.step_size == pytest.approx(expected)
    huge = measured(square_norm=1e4, curvature=4e4, slope=200.0, batch=batch())
    _, info = judged(rule, huge, memory=memory)
    assert info.kl_divergence == pytest.approx(first.kl_divergence * 1e4 / 1000.9)


def test_a_loss_of_many_nats_may_fall_by_many():
    rule = dataclasses.replace(UNDAMPED, budget=KLBudget(1e-3, decay=0.0))
    usual = measured(loss=9.0, batch=batch(least=0.0))
    assert step.propose(rule, begin(rule), usual).dispersion == 1
    far = usual._replace(loss=5e5)
    assert step.propose(rule, begin(rule), far).dispersion == 5e4


def spent(memory, error):
    """The nats of a step, and the memory after it, at an error in squares of sigma."""
    scale = Scale(0.0, 1.0, error)
    seen = measured(slope=100.0, batch=batch(scale=scale))
    memory, info = judged(Rule(budget=KLBudget(1e-3)), seen, memory=memory)
    return info.kl_divergence, memory


def test_what_a_network_worse_than_a_constant_has_seen_does_not_count():
    usual, _ = spent(None, 1.0)
    _, memory = spent(None, 10.0)
    assert memory.astray == pytest.approx(8 * (1 - 10**-6))
    again, _ = spent(memory._replace(error=0.0), 1.0)
    assert again == pytest.approx(usual, rel=1e-5)


def test_a_network_worse_than_a_constant_may_go_until_it_arrives():
    usual, _ = spent(None, 1.0)
    assert spent(None, 2.0)[0] == pytest.approx(64 * usual)
    assert spent(None, 1e3)[0] == pytest.approx(1)  # all of the way
    _, memory = spent(None, 0.4)
    _, memory = spent(memory, 1e3)
    assert memory.arrived == 1 and memory.error > 50
    assert memory.astray == 0 and spent(memory, 1e3)[0] < usual


def test_what_guessing_costs_tells_how_far_off_nats_are():
    rule = Rule(budget=KLBudget(1e-3))

    def allowed(loss, chance):
        told = Batch(8.0, None, 0.0, chance)
        info = judged(rule, measured(loss=loss, slope=1e4, batch=told))[1]
        return info.kl_divergence * max(loss / (chance or 10), 1)  # in nats

    assert allowed(2.0, math.log(10)) == pytest.approx(allowed(2.0, None))
    assert allowed(1e4, math.log(10)) == pytest.approx(1000)
    assert allowed(1e4, None) == pytest.approx(1000)


def test_a_step_goes_ten_times_as_far_as_somebody_looked():
    rule = dataclasses.replace(UNDAMPED, budget=KLBudget(1e9), curvature_decay=0.5)
    rule = dataclasses.replace(rule, look_every=4)
    near = measured(distance=0.01, batch=batch())
    memory, info = judged(rule, near, Trial(0.01, -0.01))
    assert info.step_size == pytest.approx(0.1) and info.limit == Limit.LOOK
    unseen = measured(curvature=math.nan, looked=False, slope=20.0, batch=batch())
    _, info = judged(rule, unseen, memory=memory)
    assert info.step_size == pytest.approx(1.0) and info.limit == Limit.LOOK


def test_a_step_is_no_longer_than_steps_usually_are():
    """A curvature that vanishes does not stretch directions that shrink for it."""
    rule = dataclasses.replace(UNDAMPED, budget=KLBudget(1e9), curvature_decay=0.0)
    memory, few, usual = begin(rule), batch(), step.BEYOND_MINIMUM * 0.5
    for _ in range(step.FIRST_LOOKS):
        memory, info = judged(rule, measured(batch=few), memory=memory)
        assert info.step_size == usual and info.limit == Limit.MODEL
    assert memory.step_size == pytest.approx(usual)
    flat = measured(curvature=4e-9, batch=few)
    after, info = judged(rule, flat, memory=memory)
    assert info.step_size == pytest.approx(step.UNUSUAL_STEP * usual)
    assert info.limit == Limit.USUAL
    mean = usual + (info.step_size - usual) / (step.FIRST_LOOKS + 1)
    assert after.step_size == pytest.approx(mean)
    # What a schedule shortens says nothing about how long steps usually are.
    half = step.propose(rule, memory, flat, 0.5)
    assert half.step_size == pytest.approx(info.step_size / 2)
    assert half.memory.step_size == pytest.approx(mean)
    # Nor does a step of zero.
    none = measured(slope=0.0, batch=batch())
    assert judged(rule, none, memory=memory)[0].step_size == memory.step_size


def test_steps_of_zero_do_not_count_among_those_whose_size_is_usual():
    """A schedule may begin with a hundred of them."""
    rule = dataclasses.replace(UNDAMPED, budget=KLBudget(1e9), curvature_decay=0.0)
    few, memory = measured(batch=batch()), begin(rule)
    for _ in range(100):
        proposal = step.propose(rule, memory, few, 0.0)
        memory, info = step.judge(rule, memory, few, proposal, None)
        assert info.step_size == 0
    for _ in range(20):
        memory, info = judged(rule, few, memory=memory)
        assert info.limit == Limit.MODEL
    assert memory.step_size == pytest.approx(step.BEYOND_MINIMUM * 0.5)


def test_the_less_is_left_to_learn_the_less_a_step_may_move_predictions():
    rule = dataclasses.replace(UNDAMPED, budget=KLBudget(1e9))
    for left in (0.01, 0.04):
        for nat in (1.0, 0.1):  # a loss in nats, and a mean of ten such
            scale = None if nat == 1 else Scale(0.0, nat, 0.0)
            known = measured(loss=1 + nat * left, batch=batch(scale=scale, least=1.0))
            info = judged(rule, known)[1]
            assert info.kl_divergence == pytest.approx(0.06 * left**1.5)
            assert info.limit == Limit.KL_BUDGET


def test_a_squared_error_does_not_tell_what_is_left_to_learn():
    rule = dataclasses.replace(UNDAMPED, budget=KLBudget(1e9))
    fits = batch(scale=Scale(0.0, 1.0, 1e-6), least=0.0)
    info = judged(rule, measured(loss=5e-7, batch=fits))[1]
    assert info.limit == Limit.MODEL


def test_before_a_first_step_a_probe_looks_where_the_loss_is_lower_by_a_hundredth():
    memory, few = begin(Rule()), batch(least=1.0)
    assert step.reach(memory, 5.0, 2.0, few) == pytest.approx(0.02)
    assert step.reach(memory, 5.0, -2.0, few) == pytest.approx(0.02)
    assert step.reach(memory, 5.0, 0.0, few) == 0
    assert step.reach(memory, 5.0, 2.0, batch()) == 0
    assert step.reach(memory, 5.0, 2.0, None) == 0
    assert step.reach(memory._replace(reach=0.3), 5.0, 2.0, few) == 0.3


def test_a_budget_can_begin_where_another_training_ended():
    fresh = dataclasses.replace(UNDAMPED, budget=KLBudget(1e-3))
    told = dataclasses.replace(UNDAMPED, budget=KLBudget(1e-3, seen=72.0))
    scale = Scale(mean=0.0, variance=1.0, error=0.0)
    few = measured(batch=batch(8.0, scale))
    first, later = (step.propose(rule, begin(rule), few) for rule in (fresh, told))
    # Ten times the examples; targets count as before.
    assert later.step_size == pytest.approx(first.step_size / 10**0.25)
    assert later.memory == first.memory._replace(step_size=later.memory.step_size)


@pytest.mark.parametrize(
    "errors, before",
    [
        ([1.0] * 9, 0),
        ([0.6, *[0.01] * 8], 0),
        ([0.25] * 9, 8 * 4**6),
        ([0.01, *[0.25] * 8], 8 * 4**6),
        ([0.01] * 8 + [1.0], 8 * 10**6),
    ],
)
def test_first_batches_tell_whether_a_network_was_trained_before(errors, before):
    rule = Rule()
    memory = begin(rule)
    for error in errors:
        few = batch(8.0, Scale(mean=0.0, variance=1.0, error=error))
        memory, _ = judged(rule, measured(batch=few), memory=memory)
    assert memory.before == pytest.approx(before)


def test_losses_in_nats_tell_by_what_guessing_costs():
    some = measured(loss=0.5, batch=Batch(8.0, None, 0.0, chance=2.0))
    rule = Rule()
    assert step.propose(rule, begin(rule), some).memory.before == 8 * 4**6
    unknown = some._replace(batch=batch(8.0, None, 0.0))
    assert step.propose(rule, begin(rule), unknown).memory.before == 0


def test_steps_fall_to_zero_towards_a_horizon():
    rule = dataclasses.replace(UNDAMPED, horizon=Horizon(10, share=0.5))
    memory, sizes, limits = begin(rule), [], []
    for number in range(12):
        seen = measured(sound=number != 2)  # A batch that is refused counts too.
        memory, info = judged(rule, seen, memory=memory)
        sizes.append(info.step_size)
        limits.append(info.limit)
    assert sizes[:2] + sizes[3:] == pytest.approx(
        [0.5, 0.5, 0.5, 0.5, 0.5, 0.4, 0.3, 0.2, 0.1, 0, 0]
    )
    assert limits[5:7] == [Limit.MODEL, Limit.HORIZON] and limits[11] == Limit.HORIZON


def test_without_a_budget_a_step_may_go_back():
    rule = UNDAMPED
    back = step.propose(UNDAMPED, begin(rule), measured(slope=-2.0))
    assert back.step_size == -0.5


def test_the_running_mean_stands_for_the_curvature():
    rule = dataclasses.replace(UNDAMPED, curvature_decay=0.5)
    memory, _ = judged(rule, measured(curvature=4.0))
    assert memory.curvature == 4
    memory, info = judged(rule, measured(curvature=1.0), memory=memory)
    assert memory.curvature == 2.5 and info.step_size == 2 / 2.5
    memory, info = judged(rule, measured(curvature=9.5), memory=memory)
    assert memory.curvature == 6 and info.step_size == 2 / 6
    assert info.curvature == 9.5


def test_between_looks_the_running_mean_stands_in():
    rule = Rule(Damping(), budget=None, look_every=3)
    memory, _ = judged(rule, measured(), Trial(0.5, -0.5))
    unseen = measured(curvature=math.nan, looked=False)
    after, info = judged(rule, unseen, Trial(0.5, math.nan), memory)
    assert info.step_size == pytest.approx(2 / 4, rel=1e-3) and not info.rejected
    assert after.curvature == memory.curvature and after.damping == memory.damping
    assert math.isnan(info.reduction_ratio) and math.isnan(info.curvature)


def test_looks_are_due_each_so_many_steps_and_until_one_succeeds():
    rule, memory = Rule(look_every=5), begin(Rule())
    seen, first = memory._replace(curvature=1.0), step.FIRST_LOOKS
    due = [bool(step.is_due(rule, seen._replace(steps=n))) for n in range(12)]
    assert due == [True] * first + [n % 5 == 0 for n in range(first, 12)]
    assert step.is_due(rule, memory._replace(steps=first + 1))
    assert step.is_due(PAPER, seen._replace(steps=first + 1)) is True


def test_looks_become_rarer_as_curvatures_change_less():
    seen = begin(Rule())._replace(curvature=1.0)
    starts = (64, step.RARER_LOOKS, step.RAREST_LOOKS)
    memories = [[seen._replace(steps=n + k) for k in range(64)] for n in starts]
    looks = [sum(step.is_due(Rule(), each) for each in some) for some in memories]
    assert looks == [16, 8, 4]
    astray = [each._replace(examples=2.0, astray=1.9) for each in memories[-1]]
    assert sum(step.is_due(Rule(), each) for each in astray) == 16


@pytest.mark.parametrize("change, damping", [(-0.5, 0.5e-3), (-0.25, 1e-3), (1, 2e-3)])
def test_damping_follows_the_reduction_ratio(change, damping):
    memory, info = judged(PAPER, measured(), Trial(2 / 4.001, change))
    assert memory.damping == damping and info.damping == 1e-3
    assert info.reduction_ratio == pytest.approx(change / -0.5, rel=1e-3)
    assert info.trial_loss == 5 + change


def test_the_next_probe_is_at_the_step_s_size():
    memory, info = judged(PAPER, measured(slope=-2.0), Trial(-2 / 4.001, -0.5))
    assert info.step_size < 0 and memory.reach == -info.step_size


def test_a_batch_that_is_not_finite_teaches_nothing():
    memory, _ = judged(Rule(), measured(batch=batch()), Trial(0.1, -0.1))
    bad = measured(
        loss=math.nan, slope=math.nan, curvature=math.nan, sound=False, batch=batch()
    )
    after, info = judged(Rule(), bad, Trial(0.1, math.nan), memory)
    assert after == memory._replace(rejections=1)
    assert info.rejected and info.step_size == 0 and info.rejections == 1


@pytest.mark.parametrize(
    "changes, trial",
    [
        ({}, Trial(0.5, math.nan)),
        ({}, Trial(0.5, math.inf)),
        ({"curvature": math.inf}, Trial(0.5, -0.5)),
        ({"curvature": math.nan}, Trial(0.5, -0.5)),
    ],
)
def test_a_step_that_would_not_end_well_is_refused(changes, trial):
    memory = begin(PAPER)._replace(reach=1.0)
    after, info = judged(PAPER, measured(**changes), trial, memory)
    expected = memory._replace(damping=2e-3, reach=0.25, rejections=1)
    assert after == expected and info.rejected and info.step_size == 0


def test_a_first_look_that_ends_badly_is_repeated_nearer():
    """Where nobody has gone yet, there is no former distance to take a part of."""
    for reach in (0.0, 0.5, 0.125):
        memory = begin(PAPER)._replace(reach=reach)
        looked = measured(distance=2.0 if reach == 0 else reach)
        after, info = judged(PAPER, looked, Trial(looked.distance, math.nan), memory)
        assert info.rejected and after.reach == looked.distance / 4


def test_an_undamped_bend_of_zero_is_refused():
    after, info = judged(UNDAMPED, measured(curvature=0.0))
    assert info.rejected and info.step_size == 0 and after.damping == 0


def test_a_direction_of_zeros_is_a_step_of_zero():
    still = measured(slope=0.0, square_norm=0.0, curvature=0.0)
    memory, info = judged(PAPER, still, Trial(0.0, 0.0))
    assert info.step_size == 0 and not info.rejected and memory.damping == 1e-3


KINDS = {
    "jax": lambda x: jnp.asarray(x, jnp.float64),
    "torch": lambda x: torch.tensor(x, dtype=torch.float64),
}


def converted(kind, value):
    """Each float of a nested value as a framework's scalar; truths stay."""
    if isinstance(value, tuple):
        return type(value)(*[converted(kind, part) for part in value])
    return KINDS[kind](value) if isinstance(value, float) else value


def numbers(value):
    return [float(x) for x in value]


MEASUREMENTS = {
    "plain": (measured(batch=batch()), Trial(0.3, -0.4)),
    "at the step": (measured(batch=batch()), Trial(0.5, -0.4)),
    "with a scale": (
        measured(batch=batch(scale=Scale(1.0, 2.0, 3.0), least=0.0)), Trial(0.3, -0.4)
    ),
    "no look": (
        measured(curvature=math.nan, looked=False, batch=batch()),
        Trial(math.nan, math.nan),
    ),
    "a part": (measured(batch=batch()), Trial(0.3, None)),
    "no trial": (measured(batch=batch()), None),
    "bad batch": (measured(loss=math.nan, sound=False, batch=batch()), None),
    "bad trial": (measured(batch=batch()), Trial(0.3, math.inf)),
    "still": (
        measured(slope=0.0, square_norm=0.0, curvature=0.0, batch=batch()),
        Trial(0.0, 0.0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MEASUREMENTS)
@pytest.mark.parametrize("kind, jitted", [("jax", 0), ("jax", 1), ("torch", 0)])
def test_every_kind_of_scalar_makes_the_step_of_plain_numbers(case, kind, jitted, x64):
    rule, (measurement, trial) = Rule(Damping(0.3, 0.7, 1.7)), MEASUREMENTS[case]
    memory = begin(rule)._replace(reach=0.3, curvature=3.0, examples=40.0)
    expected = judged(rule, measurement, trial, memory)
    make = lambda *args: judged(rule, *args)
    if jitted:
        make = jax.jit(make)
        measurement = measurement._replace(
            looked=jnp.asarray(measurement.looked), sound=jnp.asarray(measurement.sound)
        )
    found = make(*[converted(kind, value) for value in (measurement, trial, memory)])
    for here, there in zip(found, expected, strict=True):
        assert numbers(here) == pytest.approx(numbers(there), rel=1e-14, nan_ok=True)
