"""Workers on a Ray: how many there is room for, and one as its driver has it."""

import contextlib
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from qlrstudy.cluster import connection
from qlrstudy.cluster.connection import Resources
from qlrstudy.cluster.jobs import Job
from qlrstudy.cluster.worker import Worker
from qlrstudy.spec import DataOptions
from qlrstudy.training.outcome import Progress


class WorkerHandle:
    """A worker, the job it is at, and the call whose answer is awaited."""

    def __init__(self, actor: Any, call: Any) -> None:
        self.actor, self.call = actor, call
        self.shares_store: bool | None = None  # until it has said so
        self.job: Job | None = None
        self.group: Hashable = None
        self.progress: Progress | None = None
        self.looking: Any = None
        self.stopped = False  # by its judge

    def look(self) -> None:
        """Ask the worker where it is; the answer comes with a later look."""
        ray = connection.ray()
        if self.looking is not None and ray.wait([self.looking], timeout=0)[0]:
            with contextlib.suppress(ray.exceptions.RayError):
                self.progress = ray.get(self.looking)
            self.looking = None
        if self.looking is None and self.job is not None:
            self.looking = self.actor.look.remote()

    def forget(self, place: str) -> None:
        """Have the worker's copy of a run removed; if it died, so did the copy."""
        ray = connection.ray()
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(self.actor.forget.remote(place))


def start(
    store: Path, mark: str, data: DataOptions, resources: Resources
) -> WorkerHandle:
    """Ask Ray for a worker.

    Args:
        store: the driver's, as `mark` and `data`; see `Worker`.
        mark: of the store.
        data: where data may come from.
        resources: what it gets.
    """
    accelerators = _accelerators(resources)
    limits = connection.environment(resources.cores, accelerators)
    actor = (
        connection.ray()
        .remote(Worker)
        .options(
            num_cpus=resources.cores,
            num_gpus=accelerators,
            # One call works while another one looks or stops it.
            max_concurrency=3,
            runtime_env={"env_vars": limits},
        )
        .remote(store, mark, data)
    )
    return WorkerHandle(actor, actor.shares_store.remote())


def capacity(resources: Resources) -> int:
    """How many workers the cluster has room for; one waits for it at the least."""
    total = connection.ray().cluster_resources()
    found = int(total.get("CPU", 0) / resources.cores)
    if accelerators := _accelerators(resources):
        found = min(found, int(total.get("GPU", 0) / accelerators))
    return max(1, min(found, resources.workers or found))


def _accelerators(resources: Resources) -> float:
    if resources.accelerators is not None:
        return resources.accelerators
    total = connection.ray().cluster_resources()
    return 1.0 if total.get("GPU", 0) >= 1 else 0.0
