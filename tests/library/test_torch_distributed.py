"""Two processes make the step that one makes with the joined batch."""

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from adamqlr.torch import (
    Accumulated,
    AdamQLR,
    Categorical,
    Fisher,
    Gaussian,
    Objective,
    Probe,
)
from processes import in_two_processes
from torch_cases import set_reach

# Processes with unequal shares of the weights, the second in two micro-batches.
SHARES = [slice(0, 8), slice(8, 24)]
CASES = [
    (Probe(), Categorical()),
    (Fisher(), Categorical()),
    (Probe(), Gaussian()),  # whose targets' scale is one for all processes
]


def data(likelihood):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(24, 4, generator=generator, dtype=torch.float64)
    y = torch.arange(24) % 3 if isinstance(likelihood, Categorical) else 5 + x[:, :3]
    return x, y, torch.linspace(0, 2, 24, dtype=torch.float64)


def make_model():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    return net.double()


def steps(model, objective, curvature):
    """The parameters, trained and averaged, and the last step's info, after a few."""
    optimiser = AdamQLR(model.parameters(), curvature=curvature)
    set_reach(optimiser, 0.01)
    for _ in range(5):
        optimiser.step(objective)
    params = contents(model)
    with optimiser.averaged():
        params += contents(model)
    return params, tuple(optimiser.info)


def contents(model):
    return [param.detach().clone() for param in model.parameters()]


def work(rank):
    distributed.init_process_group("gloo")
    answers = []
    for curvature, likelihood in CASES:
        share = [tensor[SHARES[rank]] for tensor in data(likelihood)]
        model = DistributedDataParallel(make_model())
        pieces = zip(*[tensor.chunk(rank + 1) for tensor in share], strict=True)
        parts = [Objective(model, likelihood, *piece) for piece in pieces]
        answers.append(steps(model, Accumulated(parts), curvature))
    return answers


def test_two_processes_equal_one_with_the_joined_batch(tmp_path):
    ranks = in_two_processes(work, tmp_path)
    for (curvature, likelihood), *found in zip(CASES, *ranks, strict=True):
        model = make_model()
        whole = Objective(model, likelihood, *data(likelihood))
        params, info = steps(model, whole, curvature)
        for their_params, their_info in found:
            for a, b in zip(params, their_params, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
            assert their_info == pytest.approx(info, rel=1e-7, nan_ok=True)
        first, second = found
        assert all(a.equal(b) for a, b in zip(first[0], second[0], strict=True))
