"""adamqlr.torch and adamqlr.jax make the same steps on the same numbers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from adamqlr import jax as in_jax
from adamqlr import torch as in_torch
from torch_cases import PAIRS, jax_objective, torch_objective

STEPS = 50
QUICK_TO_COMPILE = {"xla_backend_optimization_level": 0}
# A probe's first look is at a distance of 1e-8, where outputs agree to 8 digits only:
# both start from a reach at which differences keep their digits.
REACH = 0.05
NETWORKS = ["MLP, categorical", "conv net with batch norm", "transformer, padded"]


def jax_trace(case, optimiser):
    objective, params = jax_objective(case)

    @functools.partial(jax.jit, compiler_options=QUICK_TO_COMPILE)
    def step(params, state):
        value, grad = jax.value_and_grad(objective)(params)
        updates, state = optimiser.update(
            grad, state, params, value=value, grad=grad, value_fn=objective
        )
        return optax.apply_updates(params, updates), state

    state, info = optimiser.init(params)._replace(reach=jnp.asarray(REACH)), []
    for _ in range(STEPS):
        params, state = step(params, state)
        info.append(state.info)
    return params, jax.tree.map(lambda *leaves: np.stack(leaves), *info)


def torch_trace(case, make):
    objective = torch_objective(case)
    optimiser = make(objective.model.parameters())
    for group in optimiser.param_groups:
        group["reach"] = REACH
    info = []
    for _ in range(STEPS):
        optimiser.step(objective)
        info.append(optimiser.info)
    params = {n: p.detach().numpy() for n, p in objective.model.named_parameters()}
    return params, in_torch.StepInfo(*zip(*info, strict=True))


def assert_same(case, jax_optimiser, make, rtol=1e-8):
    expected, there = jax_trace(case, jax_optimiser)
    found, here = torch_trace(case, make)
    for name in ("step_size", "damping", "loss"):
        np.testing.assert_allclose(
            getattr(here, name), getattr(there, name), rtol, err_msg=name
        )
    assert list(here.limit) == there.limit.tolist()
    for name, value in expected.items():
        scale = np.abs(value).max()
        np.testing.assert_allclose(
            found[name], value, rtol, atol=rtol * scale, err_msg=name
        )


# Short enough steps that rounding does not grow to chaos in fifty of them.
SETTINGS = {
    "damping": 0.1,
    "damping_decrease": 0.7,
    "damping_increase": 1.5,
    "kl_budget": 3e-4,
}


@pytest.mark.parametrize("case", NETWORKS)
@pytest.mark.parametrize("curvature", ["Fisher", "Probe"])
def test_fifty_steps_agree(case, curvature, x64):
    assert_same(
        case,
        in_jax.adamqlr(curvature=getattr(in_jax, curvature)(), **SETTINGS),
        lambda params: in_torch.AdamQLR(
            params, curvature=getattr(in_torch, curvature)(), **SETTINGS
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in PAIRS if case not in NETWORKS])
def test_other_likelihoods_agree(case, x64):
    assert_same(
        case, in_jax.adamqlr(**SETTINGS),
        lambda params: in_torch.AdamQLR(
            params, curvature=in_torch.Fisher(), **SETTINGS
        ),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "curvature, changes",
    [
        ("GaussNewton()", {"ratio_every": 3}),
        ("Hessian()", {"damping": None, "rescale": 0.5}),
        ("Subsampled(Probe(), 2)", {"max_step_size": 0.02}),
    ],
)
def test_every_setting_agrees(curvature, changes, x64):
    settings = SETTINGS | changes
    assert_same(
        "MLP, categorical",
        in_jax.adamqlr(curvature=eval(curvature, vars(in_jax)), **settings),
        lambda params: in_torch.AdamQLR(
            params, curvature=eval(curvature, vars(in_torch)), **settings
        ),
    )


@pytest.mark.slow
def test_sgdqlr_agrees(x64):
    assert_same(
        "MLP, categorical",
        in_jax.sgdqlr(momentum=0.9, **SETTINGS),
        lambda params: in_torch.SGDQLR(
            params, momentum=0.9, curvature=in_torch.Fisher(), **SETTINGS
        ),
    )
