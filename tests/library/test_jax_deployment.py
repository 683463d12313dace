"""Many devices, and runs that stop and go on."""

import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adamqlr.jax import Gaussian, Rule, adam_qlr, trainer
from cases import mlp, mlp_params

SHARDED = """
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from adamqlr.jax import (Categorical, Fisher, Gaussian, Rule, Subsampled, adam_qlr,
                             trainer)

    assert jax.device_count() == 8
    jax.config.update("jax_enable_x64", True)
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    over_batch = NamedSharding(mesh, PartitionSpec("batch"))
    everywhere = NamedSharding(mesh, PartitionSpec())
    draw = np.random.default_rng(0).normal
    x = draw(size=(64, 5))
    y = np.abs(x).argmax(axis=1)
    weights = np.linspace(0, 1, 64)
    params = {"a": jnp.array(draw(size=(5, 7))), "b": jnp.array(draw(size=(7, 5)))}
    model = lambda p, x: jnp.tanh(x @ p["a"]) @ p["b"]

    for optimiser in (
        adam_qlr(),
        adam_qlr(curvature=Subsampled(Fisher(), 2), rule=Rule(look_every=2)),
    ):
        init, step = trainer(model, Categorical(), optimiser)
        step = jax.jit(step)
        runs = []
        for place in (lambda t, s: t, jax.device_put):
            p = place(params, everywhere)
            s = place(init(params), everywhere)
            batch = place((x, y, weights), over_batch)
            sizes = []
            for _ in range(20):
                p, s = step(p, s, batch)
                sizes.append(float(s.optimiser.info.step_size))
            runs.append((jax.device_get(p), sizes))
        (alone, alone_sizes), (shared, shared_sizes) = runs
        np.testing.assert_allclose(shared_sizes, alone_sizes, rtol=1e-6)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6),
                     alone, shared)

    # Parameters whose types say how they are sharded, as `jax.make_mesh` has it by now;
    # the oldest JAX of ours cannot even reshape these.
    if not hasattr(jax, "set_mesh"):
        raise SystemExit
    mesh = jax.make_mesh((8,), ("columns",), (jax.sharding.AxisType.Explicit,))
    by_columns = NamedSharding(mesh, PartitionSpec(None, "columns"))
    init, step = trainer(lambda w, x: x @ w, Gaussian())
    step, runs = jax.jit(step), []
    for place in (lambda t, s: t, jax.device_put):
        with jax.set_mesh(mesh):
            p = place(jnp.ones((5, 8)), by_columns)
            s = init(p)
            for _ in range(3):
                p, s = step(p, s, (x, np.tile(x, 2)[:, :8]))
        runs.append(jax.device_get(p))
    np.testing.assert_allclose(*runs, rtol=1e-6)
"""


def test_sharded_arrays_give_the_single_device_trajectory():
    flags = "--xla_force_host_platform_device_count=8"
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SHARDED)],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        check=True,
    )


def test_a_checkpoint_resumes_bit_for_bit(tmp_path):
    orbax = pytest.importorskip("orbax.checkpoint", reason="not with the oldest")
    x = jax.random.normal(jax.random.key(0), (32, 3))
    batch = (x, jnp.sin(x[:, :2]))
    init, step = trainer(mlp, Gaussian(), adam_qlr(rule=Rule(look_every=2)))
    step = jax.jit(step)

    def train(params, state, steps):
        for _ in range(steps):
            params, state = step(params, state, batch)
        return params, state

    start = (mlp_params(), init(mlp_params()))
    straight = train(*start, 10)
    with orbax.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "half", train(*start, 5))
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "half", start)
    resumed = train(*restored, 5)
    jax.tree.map(np.testing.assert_array_equal, straight, resumed)
