"""A search under way: trials as jobs, ASHA's decisions, and the log of both."""

import bisect
import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from qlrstudy.cluster.jobs import Ending, Job, Pauses
from qlrstudy.spec import Record
from qlrstudy.store.files import BusyError, DamagedError, StoreError
from qlrstudy.store.manifest import Status
from qlrstudy.store.runs import RunDirectory, run_directory
from qlrstudy.store.tunings import Entry, Event, TuningDirectory
from qlrstudy.training import provenance
from qlrstudy.training.provenance import DataIdentity
from qlrstudy.tuning import space
from qlrstudy.tuning.asha import REDUCTION, WORST, Asha
from qlrstudy.tuning.space import Tuning

_SHORTEST = REDUCTION**3  # the first rung is at this part of the epochs, or later
_GRACE_SECONDS = 1.0  # Ray's default, which the paper's code has


def resource(tuning: Tuning) -> tuple[str, float, float]:
    """What ASHA counts: a field of the records, its first rung, and its most."""
    budget, how = tuning.budget, tuning.how
    if how.resource == "seconds":
        most = budget.amount if budget.unit == "seconds" else how.seconds
        return "training_seconds", _GRACE_SECONDS, most
    if budget.unit == "seconds":
        raise ValueError(
            f"resource must be 'seconds' for a budget of {budget}, got {how.resource!r}"
        )
    field = "step" if budget.unit == "steps" else "epoch"
    most = float(budget.amount)
    return field, max(1.0, most / _SHORTEST), most


class Search:
    """A tuning under way.

    Args:
        tuning: what to search.
        store: the directory of all runs.
        data: what the task's data are.
        then: given the winner once all trials have ended; returns what comes next.
    """

    def __init__(
        self,
        tuning: Tuning,
        store: Path,
        data: DataIdentity,
        then: Callable[[Mapping[str, float]], Iterable[Job]] = lambda best: (),
    ) -> None:
        self.tuning, self.store, self.data, self.then = tuning, store, data, then
        self.identity = space.identity(tuning, data)
        self.place = space.place(self.identity)
        self.directory = TuningDirectory(store / self.place)
        self.field, first, self.most = resource(tuning)
        self.asha = Asha(first, self.most)
        self.decided: dict[tuple[int, float], bool] = {}
        self.ends: dict[int, Entry] = {}
        self.damage: list[DamagedError] = []
        self._lock = contextlib.ExitStack()

    def jobs(self) -> list[Job]:
        """The trials that have not ended; or, if all have, what comes next."""
        try:
            self._lock.enter_context(self.directory.claim())
        except BusyError:
            raise StoreError(
                f"another process is tuning {self.directory.path}; wait for it, or "
                "choose another --seed or --store"
            ) from None
        self.directory.begin(self.identity)
        self.load()
        self._close_stopped()
        if not self.is_open():
            return list(self._finish())
        trials = range(self.tuning.how.samples)
        return [self._job(trial) for trial in trials if trial not in self.ends]

    def best(self) -> Entry | None:
        """The trial with the least loss at the end of its budget, so far."""
        ends = self.ends.values()
        finished = [end for end in ends if end.event == Event.FINISHED]
        return min(finished, key=lambda end: end.score, default=None)

    def rungs(self) -> list[tuple[float, int, int]]:
        """Each milestone, how many trials reached it and how many went on."""
        return [
            (milestone, len(decisions), sum(decisions))
            for milestone in self.asha.milestones
            for decisions in [
                [d for (_, m), d in self.decided.items() if m == milestone]
            ]
        ]

    def is_open(self) -> bool:
        """Whether some trial has yet to end."""
        return not all(t in self.ends for t in range(self.tuning.how.samples))

    def load(self) -> None:
        """Go through the log, to where the search was; trials that failed are open.

        What cannot be read of it is in `damage`: its trials are judged anew.
        """
        entries, self.damage = self.directory.log()
        for entry in entries:
            if entry.event == Event.FAILED:
                continue
            if entry.milestone is None:
                self.ends[entry.trial] = entry
            else:
                self.asha.enter(entry.milestone, entry.score)
                goes_on = entry.event == Event.CONTINUE
                self.decided[entry.trial, entry.milestone] = goes_on

    def _close_stopped(self) -> None:
        """End the trials whose driver was killed just after it had stopped them."""
        for entry in self.directory.log().values:
            if entry.event == Event.STOP and entry.trial not in self.ends:
                trial = RunDirectory(self.store / self._job(entry.trial).place)
                with contextlib.suppress(DamagedError):
                    trial.stop()
                self._end(entry.trial, Status.STOPPED, entry.at, entry.score)

    def _job(self, trial: int) -> Job:
        run = space.trial_run(self.tuning, trial)
        known = provenance.identity(run, self.data)
        place = run_directory(Path(self.place) / "runs", known).path
        milestones = self.asha.milestones
        if self.field == "training_seconds" and self.tuning.budget.unit != "seconds":
            milestones = [*milestones, self.most]  # where time ends what epochs do not
        return Job(
            run,
            str(place),
            known,
            group=("tuning", self.place),
            trial=trial,
            pauses=Pauses(self.field, tuple(milestones)),
            judge=functools.partial(self._judge, trial),
            ended=functools.partial(self._ended, trial),
        )

    def _judge(self, trial: int, record: Record) -> bool:
        at, loss = self._score(record)
        if at >= self.most:
            return False
        passed = bisect.bisect_right(self.asha.milestones, at)
        milestone = self.asha.milestones[passed - 1]
        if (trial, milestone) not in self.decided:  # a trial done again asks again
            goes_on = self.asha.goes_on(milestone, loss)
            self._decide(trial, goes_on, at, loss, milestone)
        return self.decided[trial, milestone]

    def _ended(self, trial: int, ending: Ending) -> Iterable[Job]:
        if trial in self.ends:
            return ()
        at, loss = (0.0, float("inf"))
        if ending.record is not None:
            at, loss = self._score(ending.record)
        status = ending.status
        if status == Status.STOPPED and at >= self.most:
            status = Status.FINISHED
        if status == Status.DIVERGED:
            loss = float("inf")
        self._end(trial, status, at, loss)
        later = [milestone for milestone in self.asha.milestones if milestone > at]
        if status == Status.DIVERGED and later:  # the worst of the rung it was to reach
            self._decide(trial, False, later[0], WORST, later[0])
        return () if self.is_open() else self._finish()

    def _decide(
        self, trial: int, goes_on: bool, at: float, loss: float, milestone: float
    ) -> None:
        event = Event.CONTINUE if goes_on else Event.STOP
        self.directory.append(Entry(trial, event, at, loss, milestone))
        self.asha.enter(milestone, loss)
        self.decided[trial, milestone] = goes_on

    def _end(self, trial: int, status: Status, at: float, loss: float) -> None:
        entry = Entry(trial, Event(status), at, loss)
        self.directory.append(entry)
        self.ends[trial] = entry

    def _score(self, record: Record) -> tuple[float, float]:
        values = record._asdict()
        return values[self.field], values[self.tuning.how.metric]

    def _finish(self) -> Iterable[Job]:
        self._lock.close()
        winner = self.best()
        if winner is None:
            return ()
        best = space.hyperparameters(self.tuning, winner.trial)
        self.directory.finish(best)
        return self.then(best)
