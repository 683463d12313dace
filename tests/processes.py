"""Two processes on one machine, as `torchrun` starts them."""

import os

import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn


def in_two_processes(work, folder):
    """What `work(rank)` returns in each of two processes that know of each other."""
    port = distributed.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    ).port
    spawn(_begin, (work, port + 1, folder), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in (0, 1)]


def _begin(rank, work, port, folder):
    torch.set_num_threads(1)
    os.environ |= {
        "TORCHELASTIC_RUN_ID": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "GROUP_RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "OMP_NUM_THREADS": "1",
    }
    torch.save(work(rank), folder / f"{rank}.pt")
