"""Two processes on one machine, as `torchrun` starts them."""

import multiprocessing
import os

import torch
from torch import distributed
from torch.multiprocessing.spawn import start_processes

# Processes begin as copies of one that has loaded all this, which takes many seconds.
multiprocessing.set_forkserver_preload(
    [
        "accelerate",
        "adamqlr.jax",
        "adamqlr.torch",
        "pytest",
        "torch._dynamo",
        "torch.distributed.fsdp",
        "torch.distributed.tensor",
    ]
)


def in_two_processes(work, folder):
    """What `work(rank)` returns in each of two processes that know of each other."""
    port = distributed.TCPStore(
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    ).port
    start_processes(
        _begin, (work, port + 1, folder), nprocs=2, start_method="forkserver"
    )
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
    # Not before: were a model the last to hold the group, torch would end it with
    # Python's lock in hand, and wait for a thread of gloo's that waits for the lock.
    if distributed.is_initialized():
        distributed.destroy_process_group()
