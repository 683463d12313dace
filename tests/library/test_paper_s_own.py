"""`paper_adam_qlr` stays what was published, whatever the defaults become."""

import jax
import numpy as np
import pytest

from adamqlr.jax import paper_adam_qlr, train_step
from adamqlr.torch import PaperAdamQLR
from torch_cases import jax_objective, torch_objective

# Step sizes, dampings and the length of the parameters after each step, in float64. A
# few lines of NumPy that follow algorithm 2 of the paper give the same to 1e-13.
STEPS = np.array([
    [0.1833832452802821, 0.001, 5.575557158053598],
    [0.5167707151926774, 0.0005, 5.561782799199386],
    [0.38468285086621223, 0.0005, 5.511535906611943],
    [0.402488417386136, 0.0005, 5.5110859825386935],
    [0.26475851096604974, 0.00025, 5.576919317629377],
    [0.1583358830693764, 0.000125, 5.639608036123282],
    [0.7615565055565375, 6.25e-05, 6.084904024425708],
    [0.5763451566745761, 3.125e-05, 6.543603539826003],
    [0.1496845519805262, 3.125e-05, 6.674470195922256],
    [0.258738796138129, 1.5625e-05, 6.90484564795986],
])  # fmt: skip


def length(params):
    return float(sum((np.asarray(param) ** 2).sum() for param in params)) ** 0.5


def jax_steps():
    objective, params = jax_objective("MLP, categorical")
    optimiser = paper_adam_qlr()
    state = optimiser.init(params)
    step = jax.jit(lambda *carry: train_step(optimiser, objective, *carry)[:2])
    for _ in STEPS:
        params, state = step(params, state)
        yield state.info.step_size, state.info.damping, length(params.values())


def torch_steps():
    objective = torch_objective("MLP, categorical")
    optimiser = PaperAdamQLR(objective.model.parameters())
    for _ in STEPS:
        optimiser.step(objective)
        params = [param.detach() for param in objective.model.parameters()]
        yield optimiser.info.step_size, optimiser.info.damping, length(params)


@pytest.mark.parametrize("steps", [jax_steps, torch_steps])
def test_its_steps_are_those_of_algorithm_2(steps, x64):
    np.testing.assert_allclose(list(steps()), STEPS, rtol=1e-10)
