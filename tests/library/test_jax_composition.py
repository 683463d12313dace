"""The transformation inside optax, flax and JAX's own transformations."""

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
    Memory,
    Objective,
    Probe,
    QLRState,
    Rule,
    StepInfo,
    Subsampled,
    adam_qlr,
    qlr,
    sgd_qlr,
    train_step,
)
from cases import CASES, double, linear_regression, mlp, mlp_params, one_step


def rescaled(rescale):
    """As a function of its number, which optax then injects or schedules."""
    return adam_qlr(rule=Rule(rescale=rescale))


VARIANTS = {
    "adamqlr": adam_qlr(),
    "undamped": adam_qlr(rule=Rule(damping=None)),
    "sgd_qlr": sgd_qlr(momentum=0.9),
    "amortised": adam_qlr(
        curvature=Subsampled(Fisher(), 2, least=1), rule=Rule(look_every=3)
    ),
    "exact": adam_qlr(curvature=Fisher()),
    "probed on a part": adam_qlr(curvature=Subsampled(Probe(), 2, least=1)),
    "around a whole optimiser": qlr(optax.rmsprop(0.1)),
    "limited": adam_qlr(rule=Rule(budget=KLBudget(1e-3), rescale=0.5)),
    "after clipping and weight decay": optax.chain(
        optax.clip_by_global_norm(0.1), optax.add_decayed_weights(1e-2), adam_qlr()
    ),
    "with injected hyperparameters": optax.inject_hyperparams(rescaled)(rescale=0.5),
    "applied if finite": optax.apply_if_finite(adam_qlr(), 3),
}


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request):
    """An optimiser, its step compiled with all buffers donated, and its traces.

    Of the module, so that what one of its tests compiles serves the others.
    """
    optimiser, traces = VARIANTS[request.param], []
    return optimiser, jax.jit(make_step(optimiser, traces), donate_argnums=0), traces


def make_step(optimiser, traces=None):
    def step(carry, batch):
        if traces is not None:
            traces.append(1)
        params, state = carry
        objective = Objective(mlp, Gaussian(), *batch)
        params, state, loss, _ = train_step(optimiser, objective, params, state)
        return (params, state), loss

    return step


def batches(steps=6, seed=0):
    x = jax.random.normal(jax.random.key(seed), (steps, 8, 3))
    return x, jnp.sin(x[..., :2])


def test_a_jitted_step_compiles_once_and_descends(variant):
    optimiser, step, traces = variant
    carry = (mlp_params(), optimiser.init(mlp_params()))
    losses = []
    for _ in range(20):
        for batch in zip(*batches(2), strict=True):
            carry, loss = step(carry, batch)
            losses.append(loss)
    assert len(traces) == 1
    assert losses[-1] < losses[0]


def test_scan_equals_a_loop(variant):
    optimiser, compiled, _ = variant
    step = make_step(optimiser)
    start = lambda: (mlp_params(), optimiser.init(mlp_params()))
    carry = start()
    for batch in zip(*batches(), strict=True):
        carry, _ = compiled(carry, batch)
    scanned, _ = jax.jit(lambda c, b: jax.lax.scan(step, c, b))(start(), batches())
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6),
        carry[0],
        scanned[0],
    )


def test_uncompiled_steps_are_the_compiled_ones():
    (objective, params), optimiser = linear_regression(), sgd_qlr()
    step = lambda *carry: train_step(optimiser, objective, *carry)[:2]
    state, looks, jitted = optimiser.init(params), [], jax.jit(step)
    # The ninth step looks along its direction, the tenth does not.
    memory = state.memory._replace(steps=jnp.asarray(8, jnp.int32))
    plain = compiled = params, state._replace(memory=memory)
    for _ in range(2):
        plain, compiled = step(*plain), jitted(*compiled)
        looks.append(bool(jnp.isfinite(plain[1].info.curvature)))
    assert looks == [True, False]
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), plain, compiled
    )


def test_vmap_over_seeds_equals_each_alone():
    optimiser = adam_qlr(rule=Rule(look_every=2))
    step = make_step(optimiser)

    def train(shift):
        params = jax.tree.map(lambda leaf: leaf + shift, mlp_params())
        (params, _), losses = jax.lax.scan(
            step, (params, optimiser.init(params)), batches()
        )
        return losses

    shifts = jnp.array([0.0, 0.1, -0.2])
    together = jax.jit(jax.vmap(train))(shifts)
    alone = jnp.stack([jax.jit(train)(shift) for shift in shifts])
    np.testing.assert_allclose(together, alone, rtol=1e-4)


def test_all_buffers_can_be_donated(variant):
    optimiser, step, _ = variant
    carry = (mlp_params(), optimiser.init(mlp_params()))
    for batch in zip(*batches(2), strict=True):
        carry, loss = step(carry, batch)
    assert jnp.isfinite(loss)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_parameters_of_every_float_type_train(dtype, x64):
    cast = lambda tree: optax.tree.cast(tree, dtype)
    params, optimiser, traces = cast(mlp_params()), adam_qlr(), []
    step = jax.jit(make_step(optimiser, traces))
    carry, losses = (params, optimiser.init(params)), []
    x, y = cast(batches(1))
    for _ in range(20):
        carry, loss = step(carry, (x[0], y[0]))
        losses.append(loss)
    assert len(traces) == 1
    assert losses[-1] < losses[0] / 2
    assert {leaf.dtype.name for leaf in jax.tree.leaves(carry[0])} == {dtype}
    scalars = carry[1].memory.damping.dtype, carry[1].info.step_size.dtype
    assert {s.name for s in scalars} == {"float64" if dtype == "float64" else "float32"}


def test_state_is_adams_an_average_and_a_few_scalars():
    params = {"w": jnp.zeros((1000, 100))}
    size = lambda tree: sum(leaf.nbytes for leaf in jax.tree.leaves(tree))
    adam = optax.adam(1e-3).init(params)
    extra = size(adam_qlr().init(params)) - size(adam)
    truths, scalars = 1, len(Memory._fields) + len(StepInfo._fields) - 1
    assert extra == size(params) + 4 * scalars + truths
    alone = adam_qlr(rule=Rule(average=None)).init(params)
    assert size(alone) - size(adam) == 4 * scalars + truths


def test_a_sweep_over_traced_settings_compiles_one_program():
    traces = []

    @jax.jit
    def loss_after(initial, nats, decay, rescale):
        rule = Rule(Damping(initial), KLBudget(nats), decay, rescale)
        optimiser = adam_qlr(rule=rule)
        step = make_step(optimiser, traces)
        start = (mlp_params(), optimiser.init(mlp_params()))
        return jax.lax.scan(step, start, batches())[1][-1]

    settings = [
        (1e-3, 0.005, 0.9, 1.0),
        (1e3, 0.005, 0.9, 1.0),
        (1e-3, 1e-8, 0.9, 1.0),
        (1e-3, 0.005, 0.5, 1.0),
        (1e-3, 0.005, 0.9, 1e-2),
    ]
    losses = [loss_after(*each) for each in settings]
    assert len(traces) == 1
    assert len({float(loss) for loss in losses}) == len(settings)


def test_an_injected_setting_can_be_scheduled():
    schedule = optax.linear_schedule(1.0, 0.1, 4)
    optimiser = optax.inject_hyperparams(rescaled)(rescale=schedule)
    step = jax.jit(make_step(optimiser))
    carry, seen = (mlp_params(), optimiser.init(mlp_params())), []
    for batch in zip(*batches(5), strict=True):
        carry, _ = step(carry, batch)
        seen.append(float(carry[1].hyperparams["rescale"]))
    np.testing.assert_allclose(seen, [1.0, 0.775, 0.55, 0.325, 0.1], rtol=1e-6)


def test_optax_finds_the_parameters_in_the_state():
    """As those do who shard the state like the parameters."""
    optimiser, params = adam_qlr(weight_decay=0.1), mlp_params()
    state = optimiser.init(params)
    names = jax.tree.map(lambda leaf: "parameter", params)
    mapped = optax.tree.map_params(
        optimiser, lambda _, name: name, state, names, transform_non_params=lambda _: ""
    )
    adam, _ = mapped.base
    assert adam.mu == adam.nu == mapped.average == names
    assert set(mapped.memory) == set(mapped.info) == {""}


def test_info_is_found_by_name_in_any_chain():
    optimiser = VARIANTS["after clipping and weight decay"]
    step = jax.jit(make_step(optimiser))
    batch = jax.tree.map(lambda leaf: leaf[0], batches(1))
    (_, state), loss = step((mlp_params(), optimiser.init(mlp_params())), batch)
    assert optax.tree.get(state, "info").loss == loss


def test_slope_uses_the_raw_gradient_also_after_clipping():
    objective, params = CASES["gaussian"]()
    value, grad = jax.jit(jax.value_and_grad(objective))(params)
    clipped = optax.chain(optax.clip_by_global_norm(1e-3), sgd_qlr())
    arguments = dict(value=value, grad=grad, value_fn=objective)

    @jax.jit
    def both():
        return [
            optimiser.update(grad, optimiser.init(params), params, **arguments)[0]
            for optimiser in (clipped, sgd_qlr())
        ]

    updates, plain = both()
    # Clipping the norm only scales the direction, to which the step is invariant.
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), updates, plain
    )


DECAYING = {"w1": True, "b1": False, "w2": True}


@pytest.mark.parametrize("mask", [DECAYING, lambda params: DECAYING])
def test_weight_decay_by_a_mask_enters_the_direction_and_not_the_gradient(mask, x64):
    objective, params = double("gaussian")
    grad = jax.grad(objective)(params)
    adam = optax.scale_by_adam(b2=0.99, nesterov=True)
    direction, _ = adam.update(grad, adam.init(params))
    decayed = {
        name: part + 0.1 * params[name] if DECAYING[name] else part
        for name, part in direction.items()
    }
    optimiser = adam_qlr(weight_decay=0.1, mask=mask)
    new, state = one_step(optimiser, objective, params)
    slope = optax.tree.vdot(grad, decayed)
    np.testing.assert_allclose(state.info.slope, slope, rtol=1e-12)
    expected = optax.tree.add_scale(params, -state.info.step_size, decayed)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), new, expected
    )


def test_flax_nnx_optimizer_trains():
    nnx = pytest.importorskip("flax.nnx", reason="not with the oldest versions")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.hidden = nnx.Linear(3, 8, rngs=rngs)
            self.norm = nnx.BatchNorm(8, rngs=rngs)
            self.out = nnx.Linear(8, 2, rngs=rngs)

        def __call__(self, x):
            return self.out(nnx.relu(self.norm(self.hidden(x))))

    model = Net(nnx.Rngs(0))
    optimiser = nnx.Optimizer(model, adam_qlr(), wrt=nnx.Param)
    x = jax.random.normal(jax.random.key(1), (32, 3))
    y = (x[:, 0] > 0).astype(int)

    @nnx.jit
    def step(model, optimiser, x, y):
        graph, params, rest = nnx.split(model, nnx.Param, ...)

        def predict(params, x):
            net = nnx.merge(graph, params, rest, copy=True)
            outputs = net(x)
            return outputs, nnx.state(net, nnx.BatchStat)

        objective = Objective(predict, Categorical(), x, y, has_aux=True)
        gradient = jax.value_and_grad(objective.with_outputs, has_aux=True)
        (value, (outputs, new_rest)), grad = gradient(params)
        optimiser.update(
            model, grad, value=value, grad=grad, value_fn=objective, outputs=outputs
        )
        nnx.update(model, new_rest)
        return value

    losses = [step(model, optimiser, x, y) for _ in range(20)]
    assert losses[-1] < losses[0] / 2
    assert isinstance(optimiser.opt_state, QLRState)
