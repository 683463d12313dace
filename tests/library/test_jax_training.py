"""The plain training step: model state, random keys, weights."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from adamqlr.jax import Gaussian, adamqlr, paper_adamqlr, trainer
from cases import mlp, mlp_params

X = jax.random.normal(jax.random.key(0), (32, 3))
Y = jnp.sin(X[:, :2])


def test_a_step_is_the_optax_step():
    init, step = trainer(mlp, Gaussian(), adamqlr())
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
    init, step = trainer(noisy, Gaussian(), paper_adamqlr(damping=1e-6))
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
