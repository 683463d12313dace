"""Batches cut over devices, or into micro-batches, make the step of the whole batch."""

import functools
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
import pytest

from adamqlr.jax import (
    Fisher,
    Gaussian,
    Objective,
    adam_qlr,
    micro_batched,
    qlr,
    train_step,
)
from cases import mlp, mlp_params

ON_FOUR_DEVICES = """
    import functools
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, PartitionSpec as P
    from adamqlr.jax import (Categorical, Fisher, Gaussian, Hessian, Objective,
                             adam_qlr, train_step)

    assert jax.device_count() == 4
    jax.config.update("jax_enable_x64", True)
    try:
        shard_map = jax.shard_map
        unchecked = {"check_vma": False}
    except AttributeError:
        from jax.experimental.shard_map import shard_map
        unchecked = {"check_rep": False}
    draw = np.random.default_rng(0).normal
    x = draw(size=(64, 5))
    start = {"a": jnp.array(draw(size=(5, 7))), "b": jnp.array(draw(size=(7, 3)))}
    model = lambda p, x: jnp.tanh(x @ p["a"]) @ p["b"]
    weights = np.linspace(0, 2, 64)  # devices weigh differently
    mesh = Mesh(np.array(jax.devices()), ("batch",))

    def step(optimiser, likelihood, axis, params, state, batch):
        objective = Objective(model, likelihood, *batch, axis_name=axis)
        return train_step(optimiser, objective, params, state)[:3]

    def mapped(one, kind):
        if kind == "pmap":
            p = jax.pmap(one, axis_name="batch", in_axes=(None, None, 0))
            cut = lambda leaf: leaf.reshape(4, -1, *leaf.shape[1:])
            first = lambda tree: jax.tree.map(lambda leaf: leaf[0], tree)

            def run(params, state, batch):
                answer = p(params, state, jax.tree.map(cut, batch))
                for leaf in jax.tree.leaves(answer):  # bit for bit on all devices
                    assert all(np.array_equal(a, leaf[0], equal_nan=True) for a in leaf)
                return first(answer)

            return run
        specs = dict(mesh=mesh, in_specs=(P(), P(), P("batch")), out_specs=P())
        specs |= {} if kind == "checked" else unchecked
        return jax.jit(shard_map(one, **specs))

    close = functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-9)
    for optimiser, likelihood, batch in (
        (adam_qlr(), Categorical(), (x, np.abs(x).argmax(1) % 3)),
        (adam_qlr(curvature=Fisher()), Gaussian(), (x, 5 + x[:, :3], weights)),
    ):
        runs = {}
        for kind in KINDS:
            axis = None if kind == "alone" else "batch"
            one = functools.partial(step, optimiser, likelihood, axis)
            run = jax.jit(one) if kind == "alone" else mapped(one, kind)
            params, state = start, optimiser.init(start)
            for _ in range(12):
                params, state, loss = run(params, state, batch)
            runs[kind] = jax.device_get((params, state, loss))
        for kind in KINDS:
            jax.tree.map(close, runs["alone"], runs[kind])

    def refused(optimiser, axis, kind="unchecked"):
        one = functools.partial(step, optimiser, Categorical(), axis)
        try:
            batch = (x, np.abs(x).argmax(1) % 3)
            mapped(one, kind)(start, optimiser.init(start), batch)
        except ValueError as error:
            return str(error)

    assert "axis_name='batch'" in refused(adam_qlr(), None)
    assert "Hessian has no sum" in refused(adam_qlr(curvature=Hessian()), "batch")
    assert refused(adam_qlr(), ()) is None  # each by itself, if one insists

    def one(params, x):  # each device has a row of the parameters
        objective = Objective(lambda w, x: x @ w, Gaussian(), x, x, axis_name="batch")
        return objective(params)

    if hasattr(jax, "shard_map"):
        cut = dict(mesh=mesh, in_specs=(P("batch"), P("batch")), out_specs=P())
        try:
            jax.shard_map(one, **cut)(jnp.ones((4, 1)), x[:, :1])
        except ValueError as error:
            assert "params differs between the devices of 'batch'" in str(error)
        else:
            raise AssertionError("parameters in parts were taken for whole ones")

    two = Mesh(np.array(jax.devices()).reshape(2, 2), ("batch", "model"))
    mesh = two  # of which `refused` names one axis alone
    assert "axis_name=('batch', 'model')" in refused(adam_qlr(), "batch")
"""


@pytest.mark.slow
def test_batches_cut_over_devices_make_the_step_of_one():
    kinds = ("alone", "pmap", "checked", "unchecked")
    code = f"KINDS = {kinds!r}\n" + textwrap.dedent(ON_FOUR_DEVICES)
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=4"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


X = jax.random.normal(jax.random.key(0), (24, 3))
Y = jnp.sin(X[:, :2])


def trained(objective, optimiser, steps=6):
    params = mlp_params()
    state = optimiser.init(params)
    step = jax.jit(lambda p, s: train_step(optimiser, objective, p, s)[:3])
    for _ in range(steps):
        params, state, loss = step(params, state)
    return params, state.info, loss


def test_batches_cut_by_vmap_make_the_step_of_the_whole_batch():
    optimiser, start = adam_qlr(), mlp_params()
    run = (start, optimiser.init(start))

    def step(params, state, x, y, axis=None):
        objective = Objective(mlp, Gaussian(), x, y, axis_name=axis)
        return train_step(optimiser, objective, params, state)[:3]

    one = functools.partial(step, axis="batch")
    cut = jax.vmap(one, in_axes=(None, None, 0, 0), axis_name="batch")
    parts = jax.jit(cut)(*run, X.reshape(4, 6, -1), Y.reshape(4, 6, -1))
    for alike in (lambda leaf: leaf[0], lambda leaf: leaf[3]):
        close = lambda a, b, alike=alike: np.testing.assert_allclose(
            alike(a), b, rtol=2e-3
        )
        jax.tree.map(close, parts, jax.jit(step)(*run, X, Y))


@pytest.mark.parametrize("curvature", [{}, {"curvature": Fisher()}])
def test_micro_batches_make_the_step_of_the_whole_batch(curvature):
    weights = jnp.linspace(0, 2, 24)
    runs = [
        trained(Objective(predict, Gaussian(), X, Y, weights), adam_qlr(**curvature))
        for predict in (mlp, micro_batched(mlp, 4))
    ]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3), *runs)


def test_micro_batches_of_a_model_with_state():
    def predict(params, x):
        state = {"mean": x.mean(0), "count": jnp.array(len(x)), "one": jnp.ones(())}
        return mlp(params, x), state

    whole = Objective(predict, Gaussian(), X, Y, has_aux=True)
    model = micro_batched(predict, 4, has_aux=True)
    cut = Objective(model, Gaussian(), X, Y, has_aux=True)
    runs = [trained(objective, adam_qlr()) for objective in (whole, cut)]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3), *runs)
    states = [objective.with_aux(mlp_params())[1] for objective in (whole, cut)]
    np.testing.assert_allclose(states[1]["mean"], states[0]["mean"], rtol=1e-5)
    assert states[1]["count"] == 6 and states[1]["one"].shape == ()


def test_parts_that_do_not_divide_a_batch_are_refused():
    objective = Objective(micro_batched(mlp, 5), Gaussian(), X, Y)
    with pytest.raises(ValueError, match="parts=5 must divide the 24 examples"):
        objective(mlp_params())


def test_multi_steps_are_refused_with_the_cure():
    optimiser = optax.MultiSteps(adam_qlr(), every_k_schedule=2)
    objective, params = Objective(mlp, Gaussian(), X, Y), mlp_params()
    value, grad = jax.value_and_grad(objective)(params)
    state = optimiser.init(params)
    with pytest.raises(ValueError, match="micro_batched"):
        optimiser.update(
            grad, state, params, value=value, grad=grad, value_fn=objective
        )


CHAINS = {
    "schedule": lambda ours: optax.chain(ours, optax.scale_by_schedule(jnp.cos)),
    "rate": lambda ours: optax.chain(ours, optax.scale_by_learning_rate(1e-3)),
    "by name": lambda ours: optax.named_chain(
        ("ours", ours), ("decay", optax.add_decayed_weights(0.01))
    ),
    "outer": lambda ours: optax.chain(
        optax.chain(optax.clip(1.0), ours), optax.scale(0.5)
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_nothing_may_stand_after_it_in_a_chain(name):
    optimiser, params = CHAINS[name](adam_qlr()), mlp_params()
    objective = Objective(mlp, Gaussian(), X, Y)
    step = jax.jit(
        lambda params, state: train_step(optimiser, objective, params, state)
    )
    with pytest.raises(ValueError, match="has something after this optimiser"):
        step(params, optimiser.init(params))


def test_it_may_be_the_last_of_chains_in_chains():
    inner = optax.chain(optax.identity(), qlr(optax.chain(*[optax.identity()] * 2)))
    optimiser = optax.named_chain(("a", optax.clip(1.0)), ("b", inner))
    params, objective = mlp_params(), Objective(mlp, Gaussian(), X, Y)
    train_step(optimiser, objective, params, optimiser.init(params))


WRAPPERS = {
    "schedule_free": lambda ours: optax.contrib.schedule_free(ours, 1.0),
    "mechanize": optax.contrib.mechanize,
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_nothing_around_it_may_make_other_steps(name):
    optimiser, params = WRAPPERS[name](adam_qlr()), mlp_params()
    objective = Objective(mlp, Gaussian(), X, Y)
    with pytest.raises(ValueError, match=f"{name} around this optimiser"):
        train_step(optimiser, objective, params, optimiser.init(params))


AROUND = {
    "masked": lambda inner, labels: optax.masked(
        inner, jax.tree.map(lambda label: label == "train", labels)
    ),
    "multi_transform": lambda inner, labels: optax.multi_transform(
        {"train": inner, "freeze": optax.set_to_zero()}, labels
    ),
}


@pytest.mark.parametrize("name", AROUND)
def test_a_mask_around_it_says_to_put_it_inside(name):
    params = mlp_params()
    labels = {key: "train" if key == "w1" else "freeze" for key in params}
    with pytest.raises(ValueError, match="put them inside"):
        AROUND[name](adam_qlr(), labels).init(params)


def test_a_mask_inside_freezes():
    params = mlp_params()
    first, *frozen = params
    labels = {key: "train" if key == first else "freeze" for key in params}
    parts = {"train": optax.scale_by_adam(), "freeze": optax.set_to_zero()}
    optimiser = qlr(optax.partition(parts, labels))
    objective = Objective(mlp, Gaussian(), X, Y)
    after, _, loss = trained(objective, optimiser)
    assert loss < objective(params)
    assert all(jnp.array_equal(after[key], params[key]) for key in frozen)
    assert not jnp.array_equal(after[first], params[first])
