"""Every rule answers alike in every kind of scalar, as plain if and else would."""

import contextlib
import math

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

import adamqlr.jax
import adamqlr.torch  # noqa: F401 - both register how to select their scalars
from adamqlr import rules

# Kind of scalar: how to make it, NumPy's name of its precision.
KINDS = {
    "Python": (float, np.float64),
    "NumPy, 64 bits": (np.float64, np.float64),
    "NumPy, 32 bits": (np.float32, np.float32),
    "torch, 64 bits": (lambda x: torch.tensor(x, dtype=torch.float64), np.float64),
    "torch, 32 bits": (lambda x: torch.tensor(x, dtype=torch.float32), np.float32),
    "JAX, 64 bits": (lambda x: jnp.asarray(x, jnp.float64), np.float64),
    "JAX, 32 bits": (lambda x: jnp.asarray(x, jnp.float32), np.float32),
}
ODD = [0.0, -0.0, 1.0, 0.5, 2.0, 0.25, 0.75, math.inf, -math.inf, math.nan]
# XLA reads denormals as zero: beside them it gets numbers whose products are none.
TINY = [1e-40, -1e-40, 1e-310]
# But not in these, whose powers and roots it takes of the denormals themselves.
POWERS = ("raised", "excess", "kl_allowance", "latitude", "late_allowance")
# Where products, quotients and powers of plain numbers leave what 64 bits can hold.
EXTREME = [5e-324, 1e-308, 1e-160, 1e-16, 1e16, 1e154, 1e155, 1.7e308]


def divided(a, b):
    return a * math.inf if b == 0 else a / b


def raised(base, exponent):
    return math.nan**exponent if base < 0 else base**exponent


def larger(a, b):
    if math.isnan(a) or math.isnan(b):
        return math.nan
    return a if a >= b else b


def kept_within(value, centre, factor):
    if value < divided(centre, factor):
        return divided(centre, factor)
    return centre * factor if value > centre * factor else value


def least_curvature(slope, height):
    if height > 0:
        return slope * slope / (2 * height)
    return 0 * slope


def pooled_variance(mean, variance, batch_mean, batch_variance, share):
    between = share * (1 - share) * (batch_mean - mean) * (batch_mean - mean)
    return (1 - share) * variance + share * batch_variance + between


def excess(divergence, allowed):
    return 0.0 if divergence == 0 else raised(divided(divergence, allowed), 0.5)


def allowance_astray(allowed, latitude, most):
    more = allowed * latitude
    if more > most:
        more = most
    return more if more > allowed else allowed


def change_at(step_size, slope, distance, change):
    if step_size == distance:
        return change
    stretch = divided(step_size, distance)
    return -step_size * slope + stretch * stretch * (change + distance * slope)


def reduction_ratio(change, predicted, resolution):
    if abs(predicted) <= resolution and abs(change) <= resolution:
        return 0.5 if predicted == 0 else 1.0
    return divided(change, predicted)


def next_damping(damping, ratio, decrease, increase, floor):
    if ratio > 0.75:
        damping = damping * decrease
    elif ratio < 0.25:
        damping = damping * increase
    if not damping > floor:
        damping = floor
    return damping if damping < 1e16 else 1e16


def cooldown(count, steps, share):
    left = divided(steps - count, share * steps)
    return 1.0 if left > 1 else (0.0 if left < 0 else left)


# Rule: what it should say, which arguments are never negative.
ORACLES = {
    "maximum": (larger, ""),
    "is_finite": (lambda x: math.isfinite(x), ""),
    "quotient": (divided, ""),
    "raised": (raised, ""),
    "bend": (lambda q, damping, square: q + damping * square, ""),
    "step_size": (
        lambda slope, bend: slope if slope == 0 else divided(slope, bend),
        "",
    ),
    "left_out": (lambda total, addend, former: addend - (total - former), ""),
    "running_mean": (
        lambda mean, x, decay: x if mean == 0 else decay * mean + (1 - decay) * x,
        "",
    ),
    "kept_within": (kept_within, ""),
    "least_curvature": (least_curvature, ""),
    "pooled_variance": (pooled_variance, ""),
    "dispersion": (larger, ""),
    "kl_divergence": (lambda a, q, phi: divided(a * a * abs(q), 2 * phi), ""),
    "kl_allowance": (
        lambda nats, size, r, n, p: divided(nats * raised(size, r), raised(n, p)),
        "",
    ),
    "latitude": (lambda r: (r * r * r) * (r * r * r), ""),
    "share_astray": (lambda latitude: 1 - divided(1, latitude), ""),
    "allowance_astray": (allowance_astray, ""),
    "late_allowance": (lambda nats: 0.06 * nats * raised(nats, 0.5), ""),
    "excess": (excess, ""),
    "shortened": (lambda a, over: a / over if over > 1 else a, ""),
    "predicted_change": (lambda a, slope, bend: -a * slope + a * a * bend / 2, ""),
    "change_at": (change_at, ""),
    "curvature_between": (
        lambda slope, h, change: divided(2 * (change + h * slope), h * h),
        "",
    ),
    "reduction_ratio": (reduction_ratio, ""),
    "usual_size": (lambda m, x, t: m if x == 0 else m + divided(x - m, t + 1), "count"),
    "cooldown": (cooldown, ""),
    "averaging_weight": (lambda t, p: divided(p + 1, p + t), "count power"),
    "next_damping": (next_damping, ""),
}
NAMES = {
    name: getattr(rules, name).__code__.co_varnames[
        : getattr(rules, name).__code__.co_argcount
    ]
    for name in ORACLES
}


@contextlib.contextmanager
def in_precision(kind, precision):
    """JAX has 64 bits only if asked for."""
    jax.config.update("jax_enable_x64", "JAX" in kind and precision is np.float64)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


def is_exponent(name, argument):
    """Whether the argument is one, which lies in [0, 1] by its settings."""
    power = name == "kl_allowance" and argument == "power"
    return power or argument in ("decay", "exponent")


def numbers(kind, name, argument):
    """What an argument may be: odd, tiny, or any number the kind can hold."""
    precision = KINDS[kind][1]
    if is_exponent(name, argument):
        return st.floats(0, 1, width=32, allow_subnormal=False)
    if "JAX" in kind:
        plain = st.floats(1e-3, 1e3) | st.floats(-1e3, -1e-3)
    else:
        plain = st.floats(width=64 if precision is np.float64 else 32)
    tiny = [] if "JAX" in kind and name in POWERS else TINY
    answers = st.sampled_from(ODD + tiny) | plain
    positive = argument in ORACLES[name][1].split()
    return answers.map(lambda x: float(precision(abs(x) if positive else x)))


def seen_by(kind, value):
    """The number that a kind's arithmetic sees."""
    precision = KINDS[kind][1]
    value = precision(value)
    flushed = "JAX" in kind and abs(value) < np.finfo(precision).tiny
    return np.copysign(precision(0), value) if flushed else value


def precision_of(found):
    """NumPy's name of an answer's precision; `None` of a plain number's."""
    if isinstance(found, torch.Tensor):
        return {torch.float32: np.float32, torch.float64: np.float64}.get(found.dtype)
    if isinstance(found, jax.Array):
        return found.dtype.type
    return None if type(found) in (float, bool) else type(found)


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("kind", KINDS)
@hypothesis.settings(max_examples=30, deadline=None, derandomize=True)
@hypothesis.given(data=st.data())
def test_a_rule_says_what_plain_if_and_else_say(name, kind, data):
    make, precision = KINDS[kind]
    values = [data.draw(numbers(kind, name, argument)) for argument in NAMES[name]]
    with in_precision(kind, precision), np.errstate(all="ignore"):
        expected = ORACLES[name][0](*[seen_by(kind, value) for value in values])
        found = getattr(rules, name)(*[make(value) for value in values])
        if name == "is_finite":
            assert bool(found) == expected
            return
        assert precision_of(found) in (precision, None)
        found = precision(float(found))
    # Powers may differ in their last bits, and XLA selects denormals as they are.
    limits = np.finfo(precision)
    rounding = {"rtol": 8 * limits.eps, "atol": limits.tiny if "JAX" in kind else 0}
    np.testing.assert_allclose(found, precision(expected), **rounding)


def extremes(name, argument):
    """Plain numbers from one end to the other, as far as the argument allows them."""
    if is_exponent(name, argument):
        return st.sampled_from([0.0, 0.25, 0.5, 1.0])
    if argument in ORACLES[name][1].split():
        return st.sampled_from([abs(x) for x in ODD + EXTREME])
    return st.sampled_from(ODD + EXTREME + [-x for x in EXTREME])


@pytest.mark.parametrize("name", ORACLES)
@hypothesis.settings(max_examples=100, deadline=None, derandomize=True)
@hypothesis.given(data=st.data())
def test_plain_numbers_never_raise_and_say_what_tensors_say(name, data):
    values = [data.draw(extremes(name, argument)) for argument in NAMES[name]]
    found = getattr(rules, name)(*values)
    tensors = [torch.tensor(value, dtype=torch.float64) for value in values]
    expected = float(getattr(rules, name)(*tensors))
    assert isinstance(found, float | bool)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "64" in kind])
def test_settings_that_are_plain_numbers_keep_all_digits(kind, x64):
    make, _ = KINDS[kind]
    for ratio, expected in [(1.0, 0.7 * 0.1), (0.0, 0.1 * 3.3), (0.5, 0.1)]:
        found = rules.next_damping(make(0.1), make(ratio), 0.7, 3.3, 1e-8)
        assert float(found) == expected
    floored = rules.next_damping(make(1e-9), make(1.0), 0.7, 3.3, 0.07)
    assert float(floored) == 0.07
    allowed = rules.kl_allowance(0.005, make(3.0), 0.25, make(7.0), 0.5)
    assert float(allowed) == pytest.approx(0.005 * 3**0.25 / 7**0.5, rel=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("condition", [True, False])
def test_where_selects_without_looking_at_the_other(kind, condition, x64):
    make, _ = KINDS[kind]
    chosen = rules.where(make(1.0) == (1.0 if condition else 2.0), make(3.0), math.nan)
    assert float(chosen) == 3 if condition else math.isnan(float(chosen))


def test_every_rule_is_among_these():
    public = {
        name
        for name, value in vars(rules).items()
        if callable(value) and getattr(value, "__module__", "") == rules.__name__
    }
    assert public - {"Limit", "where", "selected"} == set(ORACLES)
