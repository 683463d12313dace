"""The plain training step: model state, random keys, weights."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from adamqlr.jax import (
    Damping,
    Gaussian,
    Objective,
    adam_qlr,
    micro_batched,
    train_step,
    trainer,
)
from cases import mlp, mlp_params, plain, rosenbrock

X = jax.random.normal(jax.random.key(0), (32, 3))
Y = jnp.sin(X[:, :2])


def test_a_step_is_the_optax_step():
    init, step = trainer(mlp, Gaussian(), adam_qlr())
    params, state = jax.jit(step)(mlp_params(), init(mlp_params()), (X, Y))
    assert state.optimiser.info.trial_loss < state.loss
    assert state.model is None and state.key is None


def test_any_optax_optimiser_will_do():
    init, step = trainer(mlp, Gaussian(), optax.adam(1e-2))
    params, state = mlp_params(), init(mlp_params())
    losses = []
    for _ in range(30):
        params, state = jax.jit(step)(params, state, (X, Y))
        losses.append(state.loss)
    assert losses[-1] < losses[0]


def test_weights_leave_examples_out():
    init, step = trainer(mlp, Gaussian())
    half = jnp.arange(32) < 16
    masked, _ = jax.jit(step)(mlp_params(), init(mlp_params()), (X, Y, half))
    subset, _ = jax.jit(step)(mlp_params(), init(mlp_params()), (X[:16], Y[:16]))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), masked, subset
    )


def test_the_new_model_state_is_that_of_the_gradient():
    def model(params, x, state):
        outputs = mlp(params, x)
        return outputs, {"mean": outputs.mean(0), "calls": state["calls"] + 1}

    init, step = trainer(model, Gaussian())
    start = mlp_params()
    state = init(start, state={"mean": jnp.zeros(2), "calls": jnp.zeros((), int)})
    params, state = jax.jit(step)(start, state, (X, Y))
    np.testing.assert_allclose(state.model["mean"], mlp(start, X).mean(0), rtol=1e-6)
    assert state.model["calls"] == 1


def noisy(params, x, key):
    """Dropout of inputs."""
    return mlp(params, x * jax.random.bernoulli(key, 0.5, x.shape))


def test_one_step_sees_one_mask_and_the_next_another():
    init, step = trainer(noisy, Gaussian(), plain(damping=Damping(1e-6)))
    start, key = mlp_params(), jax.random.key(3)
    params, state = jax.jit(step)(start, init(start, key=key), (X, Y))
    next_key, mask_key = jax.random.split(key)
    loss = lambda p: jnp.mean(Gaussian().loss(noisy(p, X, mask_key), Y))
    np.testing.assert_allclose(state.loss, loss(start), rtol=1e-6)
    np.testing.assert_allclose(state.optimiser.info.trial_loss, loss(params), rtol=1e-4)
    assert (jax.random.key_data(state.key) == jax.random.key_data(next_key)).all()


def test_the_step_compiles_once():
    traces = []

    def model(params, x):
        traces.append(1)
        return mlp(params, x)

    init, step = trainer(model, Gaussian())
    compiled = jax.jit(step)
    params, state = mlp_params(), init(mlp_params())
    params, state = compiled(params, state, (X, Y))
    first = len(traces)
    for _ in range(3):
        params, state = compiled(params, state, (X, Y))
    assert len(traces) == first


def counting(calls):
    """A network that counts how often it is traced."""

    def model(params, x):
        calls.append(1)
        return mlp(params, x)

    return model


def test_a_step_evaluates_the_model_twice():
    """For the gradient and at the probe; neither budget nor loss need another."""
    calls = []
    objective, optimiser = Objective(counting(calls), Gaussian(), X, Y), adam_qlr()
    state = optimiser.init(mlp_params())
    jax.make_jaxpr(lambda *carry: train_step(optimiser, objective, *carry))(
        mlp_params(), state
    )
    assert len(calls) == 2
    init, step = trainer(counting(calls), Gaussian())
    jax.make_jaxpr(step)(mlp_params(), init(mlp_params()), (X, Y))
    assert len(calls) == 4


def test_a_step_is_gradient_update_and_apply():
    objective, optimiser = Objective(mlp, Gaussian(), X, Y), adam_qlr()

    @jax.jit
    def both(params, state):
        found = train_step(optimiser, objective, params, state)
        value, grad = jax.value_and_grad(objective)(params)
        updates, state = optimiser.update(
            grad, state, params, value=value, grad=grad, value_fn=objective
        )
        return found, (optax.apply_updates(params, updates), state, value, None)

    found, expected = both(mlp_params(), optimiser.init(mlp_params()))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
        tuple(found),
        expected,
    )


def test_a_step_takes_any_optimiser_and_any_function():
    objective, optimiser = Objective(mlp, Gaussian(), X, Y), optax.lbfgs()
    for function, params in (
        (rosenbrock, jnp.array([1.0, -1.0])),
        (objective, mlp_params()),
    ):
        step = jax.jit(functools.partial(train_step, optimiser, function))
        state, first = optimiser.init(params), function(params)
        for _ in range(10):
            params, state, loss, aux = step(params, state)
        assert loss < first / 4 and aux is None


def test_a_gradient_that_is_not_finite_leaves_the_model_s_state():
    """The root's slope at zero is infinite, its value is not."""

    def model(params, x, state):
        return jnp.where(x > 0, jnp.sqrt(params * x), 0.0), state + 1

    init, step = trainer(model, Gaussian())
    params, x = jnp.ones(1), jnp.array([[1.0], [0.0]])
    state = init(params, state=jnp.zeros(()))
    after, state = step(params, state, (x, x + 1))
    assert jnp.isfinite(state.loss) and state.optimiser.info.rejected
    assert state.model == 0 and after == params


@pytest.mark.parametrize(
    "returned, message",
    [
        (lambda z, state: z, r"returns \(outputs, new state\)"),
        (lambda z, state: (z, {"stats": state}), "structure and shapes"),
        (lambda z, state: (z, jnp.zeros(3)), r"\(\)}, got {.*\(3,\)}"),
    ],
)
def test_a_model_s_state_of_another_form_is_refused(returned, message):
    def model(params, x, state):
        return returned(params * x, state)

    init, step = trainer(model, Gaussian())
    params, x = jnp.ones(1), jnp.ones((2, 1))
    with pytest.raises((TypeError, ValueError), match=message):
        step(params, init(params, state=jnp.zeros(())), (x, x))


def test_micro_batches_of_a_model_with_state_say_what_they_need():
    model = lambda params, x, state: (params * x, state + x.mean())
    init, step = trainer(micro_batched(model, 2), Gaussian())
    params, x = jnp.ones(1), jnp.ones((4, 1))
    with pytest.raises(ValueError, match="has_aux=True"):
        step(params, init(params, state=jnp.zeros(())), (x, x))


def test_micro_batches_get_the_model_s_state_and_a_key_each():
    def model(params, x, state, key):
        return params * x + jax.random.normal(key, x.shape), state + x.mean()

    predict = micro_batched(model, 2, has_aux=True)
    params, x, key = jnp.ones(1), jnp.ones((4, 1)), jax.random.key(0)
    outputs, _ = predict(params, x, state=jnp.zeros(()), key=key)
    assert not np.allclose(outputs[:2], outputs[2:])
    init, step = trainer(predict, Gaussian())
    state = init(params, state=jnp.zeros(()), key=key)
    _, state = step(params, state, (x, x))
    assert state.model == 1
