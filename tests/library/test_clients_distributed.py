"""Two processes of a plain loop make the step that one makes with the joined batch."""

import contextlib

import pytest
import torch
from torch import distributed, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from adamqlr.torch import AdamQLR, Categorical, Objective
from processes import in_two_processes

X = torch.randn(24, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = X[:, :3].argmax(1)
STEPS = 4
# Of each process; the second way accumulates.
CUTS = {"whole": [slice(0, 12)], "accumulated": [slice(0, 5), slice(5, 12)]}


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def trained(inner, watched, cuts, x, y):
    """Parameters and last info of a loop that knows nothing of the other process."""
    model = DistributedDataParallel(inner)
    optimiser = AdamQLR(model.parameters())
    optimiser.watch(model if watched == "wrapper" else inner, Categorical())
    for _ in range(STEPS):
        for cut in cuts:
            last = cut is cuts[-1]
            with contextlib.nullcontext() if last else model.no_sync():
                loss = functional.cross_entropy(model(x[cut]), y[cut], reduction="sum")
                (loss / 12).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimiser.step()
        optimiser.zero_grad()
    return [param.detach() for param in inner.parameters()], tuple(optimiser.info)


def work(rank):
    distributed.init_process_group("gloo")
    x, y = X[rank::2], Y[rank::2]
    found = [
        trained(network(), watched, cuts, x, y)
        for watched in ("wrapper", "inside")
        for cuts in CUTS.values()
    ]
    return found


@pytest.mark.slow
def test_two_processes_equal_one_with_the_joined_batch(tmp_path):
    ranks = in_two_processes(work, tmp_path)
    model = network()
    clip = lambda params: nn.utils.clip_grad_norm_(params, 0.1)
    optimiser = AdamQLR(model.parameters(), clip=clip)
    for _ in range(STEPS):
        optimiser.step(Objective(model, Categorical(), X, Y))
    for ours, theirs in zip(*ranks, strict=True):
        assert all(a.equal(b) for a, b in zip(ours[0], theirs[0], strict=True))
        for a, b in zip(ours[0], model.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        assert ours[1] == theirs[1]
        assert ours[1] == pytest.approx(tuple(optimiser.info), rel=1e-3)
