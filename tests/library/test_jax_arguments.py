"""What users get wrong is refused where they do, with the cure."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from adamqlr.jax import (
    Categorical,
    Damping,
    Fisher,
    Gaussian,
    KLBudget,
    Rule,
    Subsampled,
    adam_qlr,
    sgd_qlr,
    train_step,
    trainer,
)
from cases import linear_regression, mlp, mlp_params, plain


@pytest.mark.parametrize(
    "make, settings, message",
    [
        (Damping, {"initial": 0.0}, r"Damping.initial must lie in \(0, inf\), got 0.0"),
        (Damping, {"initial": float("inf")}, r"in \(0, inf\), got inf"),
        (Damping, {"decrease": 1.5}, r"Damping.decrease must lie in \(0, 1\], got 1.5"),
        (Damping, {"increase": 0.9}, r"Damping.increase .* \[1, inf\), got 0.9"),
        (Damping, {"floor": -1.0}, r"Damping.floor must lie in \[0, inf\), got -1.0"),
        (KLBudget, {"nats": 0.0}, r"KLBudget.nats must lie in \(0, inf\), got 0.0"),
        (KLBudget, {"decay": 1.5}, r"KLBudget.decay must lie in \[0, 1\], got 1.5"),
        (Rule, {"rescale": 0.0}, r"rescale must lie in \(0, inf\), got 0.0"),
        (Rule, {"rescale": float("nan")}, r"rescale must lie in \(0, inf\), got nan"),
        (Rule, {"curvature_decay": 1.0}, r"curvature_decay .* \[0, 1\), got 1.0"),
        (Rule, {"look_every": 0}, r"look_every must lie in \[1, inf\), got 0"),
        (Rule, {"look_every": np.int64(0)}, r"look_every must lie in \[1, inf\)"),
        (Rule, {"look_every": 2, "curvature_decay": None}, "needs a running mean"),
        (adam_qlr, {"b1": np.float32(2)}, r"b1 must lie in \[0, 1\), got"),
        (adam_qlr, {"b1": 1.0}, r"b1 must lie in \[0, 1\), got 1.0"),
        (adam_qlr, {"b2": -0.1}, r"b2 must lie in \[0, 1\), got -0.1"),
        (adam_qlr, {"eps": 0.0}, r"eps must lie in \(0, inf\), got 0.0"),
        (sgd_qlr, {"momentum": 1.0}, r"momentum must lie in \[0, 1\), got 1.0"),
        (Subsampled, {"curvature": Fisher(), "every": 0}, "every must lie in"),
        (
            Subsampled,
            {"curvature": Fisher(), "every": 4, "least": 0},
            r"least must lie in \[1, inf\), got 0",
        ),
    ],
)
def test_bad_settings_fail_at_once(make, settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


@pytest.mark.parametrize(
    "make, settings, message",
    [
        (
            Rule,
            {"damping": 0.1},
            r"must be a Damping .* damping=Damping\(0.1\)",
        ),
        (Rule, {"budget": 1e-3}, r"must be a KLBudget .* budget=KLBudget\(0.001\)"),
        (Rule, {"rescale": None}, "rescale must be a number, got None"),
        (Rule, {"look_every": 2.5}, "look_every must be a whole number .* got 2.5"),
        (Rule, {"look_every": jnp.asarray(4)}, "cannot be traced or injected"),
        (
            Damping,
            {"initial": "small"},
            "must be a number, got",
        ),
    ],
)
def test_a_setting_of_another_kind_is_named_with_the_cure(make, settings, message):
    with pytest.raises(TypeError, match=message):
        make(**settings)


@pytest.mark.parametrize("missing", ["params", "value", "grad", "value_fn"])
def test_a_missing_argument_is_named_with_the_cure(missing):
    objective, params = linear_regression()
    optimiser = plain()
    arguments = {
        "params": params,
        "value": objective(params),
        "grad": params,
        "value_fn": objective,
    }
    arguments[missing] = None
    with pytest.raises(ValueError, match=f"lacks {missing}: call train_step"):
        optimiser.update(params, optimiser.init(params), **arguments)


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        ({"value": jnp.ones(3)}, ValueError, "value must be the scalar loss"),
        ({"grad": {"w": jnp.ones(3)}}, ValueError, "grad must be the loss's gradient"),
        ({"value_fn": 3.0}, TypeError, "value_fn must be a function"),
    ],
)
def test_a_wrong_argument_says_what_to_pass(wrong, error, message):
    objective, params = linear_regression()
    arguments = {"value": jnp.ones(()), "grad": params, "value_fn": objective} | wrong
    optimiser = plain()
    with pytest.raises(error, match=message):
        optimiser.update(params, optimiser.init(params), params, **arguments)


@pytest.mark.parametrize(
    "likelihood, message",
    [
        ("categorical", r"must have methods .* got 'categorical' without loss and"),
        (Categorical, r"got the class Categorical: pass Categorical\(\)"),
        (None, r"must have methods .* got None without loss and fisher"),
    ],
)
def test_a_trainer_without_a_likelihood_says_what_to_pass(likelihood, message):
    with pytest.raises(TypeError, match=message):
        trainer(mlp, likelihood)


@pytest.mark.parametrize(
    "batch, found",
    [
        (jnp.ones((8, 3)), r"one array of shape \(8, 3\)"),
        (np.ones((8, 3)), r"one array of shape \(8, 3\)"),
        ((jnp.ones((8, 3)),), "1 parts"),
        ((1, 2, 3, 4), "4 parts"),
        ({"x": jnp.ones(3)}, "dict"),
        (None, "NoneType"),
    ],
)
@pytest.mark.parametrize("compiled", [True, False])
def test_a_batch_of_another_form_says_what_to_pass(batch, found, compiled):
    init, step = trainer(mlp, Gaussian())
    step = jax.jit(step) if compiled else step
    with pytest.raises(TypeError, match=rf"got {found}: call step\(params, state, "):
        step(mlp_params(), init(mlp_params()), batch)


@pytest.mark.parametrize("weights", [None, jnp.ones(0)])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_batch_of_no_examples_is_refused(weights, compiled):
    init, step = trainer(mlp, Gaussian())
    step, params = jax.jit(step) if compiled else step, mlp_params()
    outputs = mlp(params, jnp.ones((1, len(params["w1"])))).shape[1]
    batch = jnp.ones((0, len(params["w1"]))), jnp.ones((0, outputs)), weights
    with pytest.raises(ValueError, match="the batch holds no example .*leave such"):
        step(params, init(params), batch)


def test_the_state_of_another_optimiser_is_refused():
    objective, params = linear_regression()
    state = optax.adam(1e-3).init(params)
    with pytest.raises(TypeError, match="a QLRState as init.* got tuple: begin with"):
        train_step(adam_qlr(), objective, params, state)


def test_float16_parameters_are_refused():
    with pytest.raises(ValueError, match="parameters in float16 cannot be trained"):
        adam_qlr().init({"w": jnp.ones(3, jnp.float16)})


@pytest.mark.parametrize("params", [{}, [], None, jnp.zeros((0, 3))], ids=repr)
def test_no_parameters_are_refused(params):
    with pytest.raises(ValueError, match="params must hold one number at least, got"):
        adam_qlr().init(params)


@pytest.mark.parametrize(
    ("leaf", "found"),
    [(1.0, "float"), (jnp.arange(3), "int32"), (1j * jnp.ones(2), "co")],
)
def test_parameters_that_are_no_real_arrays_are_named(leaf, found):
    with pytest.raises(
        TypeError, match=rf"params\['w'\] must be an array.* got {found}"
    ):
        adam_qlr().init({"w": leaf})
