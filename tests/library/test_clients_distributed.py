"""Two processes of a plain loop make the step that one makes with the joined batch."""

import contextlib

import pytest
import torch
from torch import distributed, nn
from torch.multiprocessing.spawn import spawn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from adamqlr.torch import AdamQLR, Categorical, Objective

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


def work(rank, port, path):
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2
    )
    x, y = X[rank::2], Y[rank::2]
    found = [
        trained(network(), watched, cuts, x, y)
        for watched in ("wrapper", "inside")
        for cuts in CUTS.values()
    ]
    torch.save(found, path / f"{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_equal_one_with_the_joined_batch(tmp_path):
    port = distributed.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    ).port
    spawn(work, (port + 1, tmp_path), nprocs=2)
    model = network()
    clip = lambda params: nn.utils.clip_grad_norm_(params, 0.1)
    optimiser = AdamQLR(model.parameters(), clip=clip)
    for _ in range(STEPS):
        optimiser.step(Objective(model, Categorical(), X, Y))
    ranks = [torch.load(tmp_path / f"{r}.pt", weights_only=False) for r in (0, 1)]
    for ours, theirs in zip(*ranks, strict=True):
        assert all(a.equal(b) for a, b in zip(ours[0], theirs[0], strict=True))
        for a, b in zip(ours[0], model.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        assert ours[1] == theirs[1]
        assert ours[1] == pytest.approx(tuple(optimiser.info), rel=1e-3)
