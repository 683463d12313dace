"""Many runs at once, on the workers of a Ray cluster; one machine is the least of them.

The store is the truth: a run that it has is not done again, an unfinished one goes on
from its checkpoint. Workers live for many runs, and get runs of one group in a row, so
that they compile little. A worker that dies, or loses its machine, gives its run back.
"""

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from qlrstudy.cluster import connection
from qlrstudy.cluster import workers as crew
from qlrstudy.cluster.connection import Resources
from qlrstudy.cluster.jobs import Board, Ending, Job, Queue, Seat
from qlrstudy.cluster.worker import Order, Reply, order
from qlrstudy.cluster.workers import Hand
from qlrstudy.spec import DataOptions
from qlrstudy.store.runs import BusyError, RunDirectory, mark

ATTEMPTS = 3
_TICK_SECONDS, _LOOK_SECONDS, _BUSY_SECONDS, _STOP_SECONDS = 0.5, 1.0, 2.0, 120.0


def work(
    jobs: Iterable[Job],
    store: Path,
    data: DataOptions,
    resources: Resources,
    *,
    watch: Callable[[Board], None] = lambda board: None,
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
    """
    return _Shift(store, data, resources).go(jobs, watch, should_stop)


class _Shift:
    """The moving parts of `work`: what waits, who works, what has ended."""

    def __init__(self, store: Path, data: DataOptions, resources: Resources) -> None:
        self.store, self.data, self.resources = store.absolute(), data, resources
        self.mark = mark(self.store)
        self.queue, self.hands = Queue(), list[Hand]()
        self.endings: list[tuple[Job, Ending]] = []
        self.looked = 0.0

    def go(
        self,
        jobs: Iterable[Job],
        watch: Callable[[Board], None],
        should_stop: Callable[[], bool],
    ) -> list[tuple[Job, Ending]]:
        self._add(jobs)
        if len(self.queue):
            with connection.connected(self.resources.address):
                self._work(watch, should_stop)
        watch(self._board())
        return self.endings

    def _work(
        self, watch: Callable[[Board], None], should_stop: Callable[[], bool]
    ) -> None:
        try:
            while len(self.queue) or any(hand.job for hand in self.hands):
                if should_stop():
                    self._stop()
                    break
                self._hire()
                self._assign()
                self._await(_TICK_SECONDS)
                self._look()
                watch(self._board())
        finally:
            for hand in self.hands:
                connection.ray().kill(hand.actor)

    def _add(self, jobs: Iterable[Job]) -> None:
        """Queue what the store lacks; what it has has ended already."""
        for job in jobs:
            directory = RunDirectory(self.store / job.place)
            known = directory.manifest()
            if known is not None and known["status"] in ("finished", "diverged"):
                self._end(job, Ending(known["status"], directory.records()[-1]))
            else:
                self.queue.add(job)

    def _end(self, job: Job, ending: Ending) -> None:
        self.endings.append((job, ending))
        self._add(job.ended(ending))

    # --- workers ----------------------------------------------------------------

    def _hire(self) -> None:
        """Ask for workers while jobs wait and the cluster has room."""
        wanted = sum(hand.job is not None for hand in self.hands) + len(self.queue)
        for _ in range(len(self.hands), min(wanted, crew.room(self.resources))):
            hand = crew.hire(self.store, self.mark, self.data, self.resources)
            self.hands.append(hand)

    def _assign(self) -> None:
        for hand in self.hands:
            if hand.job is None and hand.shares_store is not None:
                others = {other.group for other in self.hands if other is not hand}
                job = self.queue.take(hand.group, others, time.monotonic())
                if job is None:
                    return
                self._begin(hand, job)

    def _begin(self, hand: Hand, job: Job) -> None:
        directory = RunDirectory(self.store / job.place)
        files = {} if hand.shares_store else directory.files()
        hand.job, hand.group = job, job.group
        ordered: Order = order(job.run, job.place, job.pauses)
        hand.call = hand.actor.perform.remote(ordered, files)

    # --- answers ----------------------------------------------------------------

    def _await(self, seconds: float) -> None:
        ray = connection.ray()
        calls = {h.call: h for h in self.hands if h.call is not None}
        if not calls:
            time.sleep(seconds)
            return
        ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
        if not ready:
            ready, _ = ray.wait(list(calls), timeout=seconds)
        for call in ready:
            self._answered(calls[call])

    def _answered(self, hand: Hand) -> None:
        ray = connection.ray()
        try:
            answer = ray.get(hand.call)
        except ray.exceptions.RayError as error:
            self._lost(hand, str(error))
            return
        hand.call = None
        if isinstance(answer, bool):
            hand.shares_store = answer
        elif answer.status == "paused":
            self._paused(hand, answer)
        else:
            self._done(hand, answer)

    def _paused(self, hand: Hand, reply: Reply) -> None:
        assert hand.job is not None and reply.record is not None
        hand.stopped = not hand.job.judge(reply.record)
        hand.call = hand.actor.proceed.remote(not hand.stopped)

    def _done(self, hand: Hand, reply: Reply) -> None:
        job, stopped = hand.job, hand.stopped
        assert job is not None
        hand.job, hand.progress, hand.stopped = None, None, False
        if reply.status == "busy":
            job.not_before = time.monotonic() + _BUSY_SECONDS
            self.queue.add(job)
        elif reply.status == "failed":
            self._again(job, reply.error)
        else:
            self._keep(job, reply, stopped)
            if reply.files:
                hand.forget(job.place)

    def _keep(self, job: Job, reply: Reply, stopped: bool) -> None:
        directory = RunDirectory(self.store / job.place)
        if reply.files:
            directory.adopt(reply.files)
        if stopped:
            directory.discard_checkpoint()
            self._end(job, Ending("stopped", reply.record))
        elif reply.status == "interrupted":  # it has not ended: nothing follows
            self.endings.append((job, Ending(reply.status, reply.record)))
        else:
            self._end(job, Ending(reply.status, reply.record))

    def _lost(self, hand: Hand, error: str) -> None:
        """Give up a worker that died, and let another have its job."""
        self.hands.remove(hand)
        if hand.job is not None:
            self._again(hand.job, error)

    def _again(self, job: Job, error: str) -> None:
        job.attempts += 1
        if job.attempts < ATTEMPTS:
            self.queue.add(job, first=True)
            return
        directory = RunDirectory(self.store / job.place)
        known = directory.manifest() or dict(job.identity)
        with contextlib.suppress(BusyError), directory.claim():
            directory.write_manifest(known | {"status": "failed", "error": error})
        self._end(job, Ending("failed", None, error))

    def _stop(self) -> None:
        """Let the runs under way be kept, and wait for that."""
        for hand in self.hands:
            hand.actor.stop.remote()
        deadline = time.monotonic() + _STOP_SECONDS
        while any(h.job for h in self.hands) and time.monotonic() < deadline:
            self._await(_TICK_SECONDS)

    # --- for those who watch ----------------------------------------------------

    def _look(self) -> None:
        """Ask each worker where it is, from time to time."""
        if time.monotonic() - self.looked < _LOOK_SECONDS:
            return
        self.looked = time.monotonic()
        for hand in self.hands:
            hand.look()

    def _board(self) -> Board:
        seats = [Seat(h.job, h.progress) for h in self.hands if h.job is not None]
        return Board(len(self.queue), seats, self.endings, len(self.hands))
