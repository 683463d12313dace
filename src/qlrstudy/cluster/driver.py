"""Many runs at once, on the workers of a Ray cluster; one machine is the least of them.

The store is the truth: a run that it has is not done again, an unfinished one goes on
from its checkpoint. Workers live for many runs, and get runs of one group in a row, so
that they compile little. A worker that dies, or loses its machine, gives its run back.
"""

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from qlrstudy.cluster import connection
from qlrstudy.cluster.connection import Resources
from qlrstudy.cluster.jobs import Ending, Job, Queue, RunningJob, Snapshot
from qlrstudy.cluster.worker import Order, Reply, order
from qlrstudy.cluster.workers import WorkerHandle, capacity, start
from qlrstudy.spec import DataOptions
from qlrstudy.store.files import BusyError, DamagedError, NewerError
from qlrstudy.store.manifest import Manifest, Status
from qlrstudy.store.marks import mark
from qlrstudy.store.runs import RunDirectory

ATTEMPTS = 3
_TICK_SECONDS, _LOOK_SECONDS, _BUSY_SECONDS, _STOP_SECONDS = 0.5, 1.0, 2.0, 120.0


def work(
    jobs: Iterable[Job],
    store: Path,
    data: DataOptions,
    resources: Resources,
    *,
    watch: Callable[[Snapshot], None] = lambda snapshot: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[tuple[Job, Ending]]:
    """Do all jobs, and those that follow from them; if there is anything to do.

    Args:
        jobs: what to do; none of it is done twice.
        store: the directory of all runs.
        data: where data may come from.
        resources: what each gets, and of which Ray.
        watch: called about twice a second.
        should_stop: asked as often; if so, what is under way is kept for later.

    Returns:
        Each job that ended, in that order; after `should_stop` not all did.

    Raises:
        StoreError: the store cannot be written.
        ValueError: a package is missing that one of the algorithms needs.
    """
    return _Driver(store, data, resources).go(jobs, watch, should_stop)


class _Driver:
    """The moving parts of `work`: what waits, who works, what has ended."""

    def __init__(self, store: Path, data: DataOptions, resources: Resources) -> None:
        self.store, self.data, self.resources = store.absolute(), data, resources
        self.mark = mark(self.store)
        self.queue, self.workers = Queue(), list[WorkerHandle]()
        self.endings: list[tuple[Job, Ending]] = []
        self.looked = 0.0

    def go(
        self,
        jobs: Iterable[Job],
        watch: Callable[[Snapshot], None],
        should_stop: Callable[[], bool],
    ) -> list[tuple[Job, Ending]]:
        self._add(jobs)
        if len(self.queue):
            with connection.connected(self.resources.address):
                self._work(watch, should_stop)
        watch(self._snapshot())
        return self.endings

    def _work(
        self, watch: Callable[[Snapshot], None], should_stop: Callable[[], bool]
    ) -> None:
        try:
            while len(self.queue) or any(worker.job for worker in self.workers):
                if should_stop():
                    self._stop()
                    break
                self._start_workers()
                self._assign()
                self._await(_TICK_SECONDS)
                self._look()
                watch(self._snapshot())
        finally:
            for worker in self.workers:
                connection.ray().kill(worker.actor)

    def _add(self, jobs: Iterable[Job]) -> None:
        """Queue what the store lacks; what it has has ended already."""
        for job in jobs:
            try:
                ended = RunDirectory(self.store / job.place).ended()
            except DamagedError as error:
                ended, job.damage = None, str(error)
            except NewerError as error:  # to be left as it is, and nothing follows
                ending = Ending(Status.FAILED, None, str(error))
                self.endings.append((job, ending))
                continue
            if ended is None:
                job.run.algorithm.check()
                self.queue.add(job)
            else:
                self._end(job, Ending(ended.manifest.status, ended.record, found=True))

    def _end(self, job: Job, ending: Ending) -> None:
        self.endings.append((job, ending))
        self._add(job.ended(ending))

    # --- workers ----------------------------------------------------------------

    def _start_workers(self) -> None:
        """Ask for workers while jobs wait and the cluster has room."""
        wanted = sum(w.job is not None for w in self.workers) + len(self.queue)
        for _ in range(len(self.workers), min(wanted, capacity(self.resources))):
            self.workers.append(start(self.store, self.mark, self.data, self.resources))

    def _assign(self) -> None:
        for worker in self.workers:
            if worker.job is None and worker.shares_store is not None:
                others = {other.group for other in self.workers if other is not worker}
                job = self.queue.take(worker.group, others, time.monotonic())
                if job is None:
                    return
                self._begin(worker, job)

    def _begin(self, worker: WorkerHandle, job: Job) -> None:
        directory = RunDirectory(self.store / job.place)
        files = {} if worker.shares_store else directory.files()
        worker.job, worker.group = job, job.group
        ordered: Order = order(job.run, job.place, job.pauses)
        worker.call = worker.actor.perform.remote(ordered, files)

    # --- answers ----------------------------------------------------------------

    def _await(self, seconds: float) -> None:
        ray = connection.ray()
        calls = {w.call: w for w in self.workers if w.call is not None}
        if not calls:
            time.sleep(seconds)
            return
        ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
        if not ready:
            ready, _ = ray.wait(list(calls), timeout=seconds)
        for call in ready:
            self._answered(calls[call])

    def _answered(self, worker: WorkerHandle) -> None:
        ray = connection.ray()
        try:
            answer = ray.get(worker.call)
        except ray.exceptions.RayError as error:
            self._lost(worker, str(error))
            return
        worker.call = None
        if isinstance(answer, bool):
            worker.shares_store = answer
        elif answer.status == "paused":
            self._paused(worker, answer)
        else:
            self._done(worker, answer)

    def _paused(self, worker: WorkerHandle, reply: Reply) -> None:
        assert worker.job is not None and reply.record is not None
        worker.stopped = not worker.job.judge(reply.record)
        worker.call = worker.actor.proceed.remote(not worker.stopped)

    def _done(self, worker: WorkerHandle, reply: Reply) -> None:
        job, stopped = worker.job, worker.stopped
        assert job is not None
        job.damage = job.damage or reply.damage
        worker.job, worker.progress, worker.stopped = None, None, False
        if reply.status == "busy":
            job.not_before = time.monotonic() + _BUSY_SECONDS
            self.queue.add(job)
        elif reply.status == Status.FAILED:
            self._again(job, reply.error)
        else:
            self._keep(job, reply, stopped)
            if reply.files:
                worker.forget(job.place)

    def _keep(self, job: Job, reply: Reply, stopped: bool) -> None:
        directory = RunDirectory(self.store / job.place)
        if reply.files:
            directory.adopt(reply.files)
        status = Status(reply.status)
        if stopped:
            directory.stop()
            status = Status.STOPPED
        ending = Ending(status, reply.record)
        if status.is_final:
            self._end(job, ending)
        else:  # interrupted: nothing follows from it yet
            self.endings.append((job, ending))

    def _lost(self, worker: WorkerHandle, error: str) -> None:
        """Give up a worker that died, and let another have its job."""
        self.workers.remove(worker)
        if worker.job is not None:
            self._again(worker.job, error)

    def _again(self, job: Job, error: str) -> None:
        job.attempts += 1
        if job.attempts < ATTEMPTS:
            self.queue.add(job, first=True)
            return
        directory = RunDirectory(self.store / job.place)
        failed = {"status": Status.FAILED, "error": error}
        with contextlib.suppress(BusyError), directory.claim():
            known = None
            with contextlib.suppress(DamagedError):
                known = directory.manifest()
            identity = msgspec.structs.asdict(known or job.identity)
            directory.write_manifest(Manifest(**(identity | failed)))
        self._end(job, Ending(Status.FAILED, None, error))

    def _stop(self) -> None:
        """Let the runs under way be kept, and wait for that."""
        for worker in self.workers:
            worker.actor.stop.remote()
        deadline = time.monotonic() + _STOP_SECONDS
        while any(w.job for w in self.workers) and time.monotonic() < deadline:
            self._await(_TICK_SECONDS)

    # --- for those who watch ----------------------------------------------------

    def _look(self) -> None:
        """Ask each worker where it is, from time to time."""
        if time.monotonic() - self.looked < _LOOK_SECONDS:
            return
        self.looked = time.monotonic()
        for worker in self.workers:
            worker.look()

    def _snapshot(self) -> Snapshot:
        running = [RunningJob(w.job, w.progress) for w in self.workers if w.job]
        return Snapshot(len(self.queue), running, self.endings)
