"""A process that does one run after the other, for a driver elsewhere.

It stays for many runs, so that programs are compiled and data read once. A run comes by
names, which each process looks up for itself: tasks and algorithms hold functions, and
their compiled programs belong to the very objects. What the driver may be asked in the
course of a run (whether it is worth going on) it is asked at the run's pauses.
"""

import bisect
import queue
import shutil
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import pooch

from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.cluster.jobs import Pauses
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Record, Run
from qlrstudy.store.files import BusyError
from qlrstudy.store.manifest import Status
from qlrstudy.store.marks import is_marked
from qlrstudy.store.runs import RunDirectory
from qlrstudy.tasks import TASKS
from qlrstudy.training.compilation_cache import keep_compiled_programs
from qlrstudy.training.outcome import Outcome, Progress
from qlrstudy.training.train import train


class Order(NamedTuple):
    """A run by names.

    Attributes:
        task: as on the command line, like `scale` and `algorithm`.
        scale: of the task.
        algorithm: what learns it.
        settings: see `Run`, as `shape`, `seed` and `budget`.
        shape: of a batch.
        seed: of all chance.
        budget: how long to train.
        place: the run's directory, relative to the store.
        pauses: where to ask whether to go on.
    """

    task: str
    scale: str
    algorithm: str
    settings: Mapping[str, float]
    shape: BatchShape
    seed: int
    budget: Budget
    place: str
    pauses: Pauses | None = None


class Reply(NamedTuple):
    """What became of an order.

    Attributes:
        status: `paused`, or `busy` if another process has the run; or how it ended.
        record: the last evaluation.
        error: what went wrong.
        damage: what the store had of it and could not be read, if any.
        files: the run's, for a driver whose store the worker cannot see.
    """

    status: Status | Literal["paused", "busy"]
    record: Record | None = None
    error: str = ""
    damage: str = ""
    files: Mapping[str, bytes] = {}


def order(run: Run, place: str, pauses: Pauses | None = None) -> Order:
    """A run as it is sent to a worker."""
    return Order(
        run.task.name,
        run.task.scale,
        run.algorithm.name,
        dict(run.settings),
        run.shape,
        run.seed,
        run.budget,
        place,
        pauses,
    )


class Worker:
    """Runs in a row, each in a thread of its own while the others of this class listen.

    Args:
        store: the driver's.
        mark: its mark; where that is not found, runs are kept in this machine's cache
            and sent to the driver at their end.
        data: where data may come from.
    """

    def __init__(self, store: Path, mark: str, data: DataOptions):
        keep_compiled_programs()
        self._shares_store = is_marked(store, mark)
        collected = Path(pooch.os_cache("qlrstudy")) / "collected" / mark
        self._store = store if self._shares_store else collected
        self._options, self._data = data, dict[tuple[str, str], Dataset]()
        self._replies: queue.Queue[Reply] = queue.Queue()
        self._answers: queue.Queue[bool] = queue.Queue()
        self._stopping = threading.Event()
        self._progress: Progress | None = None

    def shares_store(self) -> bool:
        """Whether it writes where the driver reads."""
        return self._shares_store

    def perform(self, order: Order, files: Mapping[str, bytes]) -> Reply:
        """Do a run up to its first pause or its end.

        Args:
            order: the run.
            files: what the driver's store has of it, if that cannot be seen from here.
        """
        threading.Thread(target=self._go, args=(order, files), daemon=True).start()
        return self._replies.get()

    def proceed(self, go_on: bool) -> Reply:
        """Answer a pause: the run goes on to the next one, or ends here."""
        self._answers.put(go_on)
        return self._replies.get()

    def forget(self, place: str) -> None:
        """Remove the copy of a run that the driver has by now."""
        if not self._shares_store:
            shutil.rmtree(self._store / place, ignore_errors=True)

    def look(self) -> Progress | None:
        """Where the run at hand is."""
        return self._progress

    def stop(self) -> None:
        """Let the run at hand be kept for later, and all others that come."""
        self._stopping.set()

    def _go(self, order: Order, files: Mapping[str, bytes]) -> None:
        directory = RunDirectory(self._store / order.place)
        try:
            if files:
                directory.adopt(files)
            outcome = self._train(order)
            sent = {} if self._shares_store else directory.files()
            reply = Reply(
                outcome.status, outcome.record, damage=outcome.damage, files=sent
            )
        except BusyError as error:
            reply = Reply("busy", error=str(error))
        except Exception as error:  # whatever it is, the driver must hear of it
            said = "".join(traceback.format_exception(error))
            reply = Reply(Status.FAILED, error=said)
        self._progress = None
        self._replies.put(reply)

    def _train(self, order: Order) -> Outcome:
        task = TASKS[order.task][order.scale]
        algorithm = ALGORITHMS[order.algorithm]
        run = Run(
            task, algorithm, order.settings, order.shape, order.seed, order.budget
        )
        key = (order.task, order.scale)
        if key not in self._data:
            self._data.clear()  # one at a time: some fill much of the memory
            self._data[key] = task.load(self._options)
        parent = (self._store / order.place).parent
        asking = self._asking(order.pauses)
        outcome = train(
            run, self._data[key], parent, watch=self._watch, should_stop=asking
        )
        if outcome.path.name != Path(order.place).name:
            raise ValueError(
                f"the data of task {order.task!r} here are not those of the driver: "
                f"the run became {outcome.path.name}, not {order.place}; "
                "give both machines the same files"
            )
        return outcome

    def _watch(self, progress: Progress) -> None:
        self._progress = progress

    def _asking(self, pauses: Pauses | None) -> Callable[[], bool]:
        """Whether to stop, after each stretch: by the driver's word, or its answer."""
        passed = 0

        def should_stop() -> bool:
            nonlocal passed
            if self._stopping.is_set():
                return True
            if pauses is None or self._progress is None:
                return False
            record = self._progress.record
            now = bisect.bisect_right(pauses.values, record._asdict()[pauses.field])
            if now <= passed:
                return False
            passed = now
            self._replies.put(Reply("paused", record))
            return not self._answers.get()

        return should_stop
