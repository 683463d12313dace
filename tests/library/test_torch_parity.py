"""adamqlr.torch and adamqlr.jax make the same steps on the same numbers."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from adamqlr import jax as in_jax
from adamqlr import torch as in_torch
from adamqlr.torch import PAPER, Damping, Horizon, KLBudget, Rule
from torch_cases import PAIRS, jax_objective, set_reach, torch_objective

STEPS = 50
QUICK_TO_COMPILE = {"xla_backend_optimization_level": 0}
# A probe's first look is where the slope promises a hundredth of the loss, which may be
# near: both start from a reach at which differences of outputs keep their digits.
REACH = 0.05


def jax_trace(case, optimiser):
    objective, params = jax_objective(case)

    @functools.partial(jax.jit, compiler_options=QUICK_TO_COMPILE)
    def step(params, state):
        return in_jax.train_step(optimiser, objective, params, state)[:2]

    state, info = optimiser.init(params), []
    state = state._replace(memory=state.memory._replace(reach=jnp.asarray(REACH)))
    for _ in range(STEPS):
        params, state = step(params, state)
        info.append(state.info)
    average = in_jax.evaluation_params(state, params)
    return params, average, jax.tree.map(lambda *leaves: np.stack(leaves), *info)


def torch_trace(case, make):
    objective = torch_objective(case)
    optimiser = make(objective.model.parameters())
    set_reach(optimiser, REACH)
    info = []
    for _ in range(STEPS):
        optimiser.step(objective)
        info.append(optimiser.info)
    params = contents(objective.model)
    with optimiser.averaged():
        average = contents(objective.model)
    return params, average, in_torch.StepInfo(*zip(*info, strict=True))


def contents(model):
    return {name: p.detach().numpy().copy() for name, p in model.named_parameters()}


def assert_same(case, jax_optimiser, make, rtol=1e-8):
    *expected, there = jax_trace(case, jax_optimiser)
    *found, here = torch_trace(case, make)
    for name in ("step_size", "damping", "loss", "kl_divergence"):
        np.testing.assert_allclose(
            getattr(here, name), getattr(there, name), rtol, err_msg=name
        )
    assert list(here.limit) == there.limit.tolist()
    for theirs, ours in zip(expected, found, strict=True):  # trained, and averaged
        for name, value in theirs.items():
            scale = np.abs(value).max()
            np.testing.assert_allclose(
                ours[name], value, rtol, atol=rtol * scale, err_msg=name
            )


def both(curvature, rule, **settings):
    """AdamQLR in JAX and in torch, with a curvature that each makes for itself."""
    return in_jax.adam_qlr(
        curvature=curvature(in_jax), rule=rule, **settings
    ), lambda params: in_torch.AdamQLR(
        params, curvature=curvature(in_torch), rule=rule, **settings
    )


CURVATURES = {
    "Probe()": lambda library: library.Probe(),
    "Fisher()": lambda library: library.Fisher(),
    "GaussNewton()": lambda library: library.GaussNewton(),
    "Hessian()": lambda library: library.Hessian(),
    # Of 24 examples each third, since each fourth would be fewer than seven.
    "Subsampled(Fisher(), 4, least=7)": lambda library: library.Subsampled(
        library.Fisher(), 4, least=7
    ),
}
NETWORKS = [
    "MLP, categorical",
    "MLP, weighted Gaussian",
    "conv net with batch norm",
    "transformer, padded",
]


# At the default budget the transformer's 49th step has a slope that all but cancels,
# and the quotient of rounding errors that is left of it agrees to 1.3e-8 only.
SHORTER = {"transformer, padded": Rule(budget=KLBudget(0.001))}


@pytest.mark.parametrize("case", NETWORKS)
@pytest.mark.parametrize("curvature", ["Fisher()", "Probe()"])
def test_fifty_steps_agree(case, curvature, x64):
    assert_same(case, *both(CURVATURES[curvature], SHORTER.get(case, Rule())))


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in PAIRS if case not in NETWORKS])
def test_other_likelihoods_agree(case, x64):
    assert_same(case, *both(CURVATURES["Fisher()"], Rule()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "curvature, rule, decay",
    [
        ("GaussNewton()", Rule(budget=KLBudget(decay=0.25), look_every=3), 0.0),
        ("Probe()", Rule(look_every=3, horizon=Horizon(50, 0.5)), 0.1),
        ("Probe()", Rule(budget=KLBudget(seen=1e4)), 0.0),
        ("Hessian()", Rule(damping=None, rescale=0.5), 0.0),
        ("Subsampled(Fisher(), 4, least=7)", Rule(Damping(0.1, 0.7, 3.0)), 0.0),
    ],
)
def test_every_setting_agrees(curvature, rule, decay, x64):
    optimisers = both(CURVATURES[curvature], rule, weight_decay=decay)
    assert_same("MLP, categorical", *optimisers)


@pytest.mark.slow
def test_sgdqlr_agrees(x64):
    assert_same(
        "MLP, weighted Gaussian",
        in_jax.sgd_qlr(momentum=0.9),
        lambda params: in_torch.SGDQLR(params, momentum=0.9),
    )


@pytest.mark.slow
def test_the_paper_s_agrees(x64):
    rule = dataclasses.replace(PAPER, damping=Damping(0.1))
    assert_same(
        "MLP, weighted Gaussian",
        in_jax.paper_adam_qlr(rule=rule),
        lambda params: in_torch.PaperAdamQLR(params, rule=rule),
    )
