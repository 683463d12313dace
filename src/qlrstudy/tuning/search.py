"""ASHA over runs: Ray Tune's own scheduler says which trials go on at each rung.

The scheduler is asked in the driver, for trials that `cluster` works on: the same warm
workers and the same store serve tuning and everything else.
"""

import bisect
import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from qlrstudy.cluster.jobs import Ending, Job
from qlrstudy.cluster.worker import Pauses
from qlrstudy.spec import Record
from qlrstudy.store.runs import BusyError, StoreError, run_directory
from qlrstudy.training.provenance import identity
from qlrstudy.tuning import space as tunings
from qlrstudy.tuning.space import Entry, Tuning, TuningDirectory

REDUCTION = 4.0  # of each rung's trials one in so many goes on
_SHORTEST = REDUCTION**3  # the first rung is at this part of the epochs, or later
_GRACE_SECONDS = 1.0  # Ray's default, which the paper's code has
_WORST = 3e38  # what a diverged trial's loss counts as


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


class Asha:
    """The scheduler's decisions, one for each trial and milestone.

    Args:
        first: milestone of all.
        most: of the resource that a trial may have.

    Attributes:
        milestones: in order, below `most`.
    """

    def __init__(self, first: float, most: float) -> None:
        from ray.tune.schedulers import ASHAScheduler

        self.milestones: list[float] = []
        while (at := first * REDUCTION ** len(self.milestones)) < most:
            self.milestones.append(at)
        self._scheduler = ASHAScheduler(
            time_attr="at",
            metric="loss",
            mode="min",
            max_t=most,  # pyright: ignore[reportArgumentType] - any number does
            grace_period=min(first, most),  # pyright: ignore[reportArgumentType]
            reduction_factor=REDUCTION,
        )
        self._trials: dict[int, Any] = {}

    def goes_on(self, trial: int, at: float, loss: float) -> bool:
        """Whether a trial that has reached a milestone is among the best there."""
        from ray.tune.experiment import Trial

        scheduler = self._scheduler
        if trial not in self._trials:
            self._trials[trial] = Trial("trial", stub=True, trial_id=str(trial))
            scheduler.on_trial_add(_NO_CONTROLLER, self._trials[trial])
        result = {"at": at, "loss": min(loss, _WORST)}
        decision = scheduler.on_trial_result(
            _NO_CONTROLLER, self._trials[trial], result
        )
        return decision == scheduler.CONTINUE


_NO_CONTROLLER: Any = None  # ASHA looks at the results alone


class Search:
    """A tuning under way.

    Args:
        tuning: what to search.
        store: the directory of all runs.
        contents: of the task's data; see `provenance`.
        then: given the winner once all trials have ended; returns what comes next.
    """

    def __init__(
        self,
        tuning: Tuning,
        store: Path,
        contents: Mapping[str, Any],
        then: Callable[[Mapping[str, float]], Iterable[Job]] = lambda best: (),
    ) -> None:
        self.tuning, self.contents, self.then = tuning, contents, then
        self.place = tunings.place(tuning, contents)
        self.directory = TuningDirectory(store / self.place)
        self.field, first, self.most = resource(tuning)
        self.asha = Asha(first, self.most)
        self.decided: dict[tuple[int, float], bool] = {}
        self.ends: dict[int, Entry] = {}
        self._lock = contextlib.ExitStack()

    def jobs(self) -> list[Job]:
        """The trials that have not ended; or, if all have, what comes next."""
        try:
            self._lock.enter_context(tunings.claim(self.directory))
        except BusyError:
            raise StoreError(
                f"another process is tuning {self.directory.path}; wait for it, or "
                "choose another --seed or --store"
            ) from None
        self.directory.begin(tunings.identity(self.tuning, self.contents))
        self.load()
        self._close_stopped()
        if not self.is_open():
            return list(self._finish())
        trials = range(self.tuning.how.samples)
        return [self._job(trial) for trial in trials if trial not in self.ends]

    def best(self) -> Entry | None:
        """The trial with the least loss at the end of its budget, so far."""
        finished = [end for end in self.ends.values() if end.event == "finished"]
        return min(finished, key=lambda end: end.loss, default=None)

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
        """Go through the decisions made so far, to where ASHA was."""
        for entry in list(self.directory.entries()):
            if entry.milestone is None:
                self.ends[entry.trial] = entry
                continue
            goes_on = self.asha.goes_on(entry.trial, entry.at, entry.loss)
            assert goes_on == (entry.event == "continue"), f"not reproduced: {entry}"
            self.decided[entry.trial, entry.milestone] = goes_on

    def _close_stopped(self) -> None:
        """End the trials whose driver was killed just after it had stopped them."""
        for entry in list(self.directory.entries()):
            if entry.event == "stop" and entry.trial not in self.ends:
                self._log(entry._replace(event="stopped", milestone=None))

    def _job(self, trial: int) -> Job:
        run = tunings.trial_run(self.tuning, trial)
        known = identity(run, self.contents)
        place = run_directory(Path(self.place) / "runs", known).path
        milestones = self.asha.milestones
        if self.field == "training_seconds" and self.tuning.budget.unit != "seconds":
            milestones = [*milestones, self.most]  # where time ends what epochs do not
        return Job(
            run,
            str(place),
            known,
            group=("tuning", self.place),
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
            goes_on = self.asha.goes_on(trial, at, loss)
            self.decided[trial, milestone] = goes_on
            event = "continue" if goes_on else "stop"
            self.directory.append(Entry(trial, event, at, loss, milestone))
        return self.decided[trial, milestone]

    def _ended(self, trial: int, ending: Ending) -> Iterable[Job]:
        if trial in self.ends:
            return ()
        at, loss = (0.0, float("inf"))
        if ending.record is not None:
            at, loss = self._score(ending.record)
        event = ending.status
        if event == "stopped" and at >= self.most:
            event = "finished"
        if event == "diverged":
            loss = float("inf")
            self._count_as_worst(trial, at)
        self._log(Entry(trial, event, at, loss))
        return () if self.is_open() else self._finish()

    def _count_as_worst(self, trial: int, at: float) -> None:
        """Let a diverged trial stand in the rung that it did not reach."""
        later = [milestone for milestone in self.asha.milestones if milestone > at]
        if later:
            goes_on = self.asha.goes_on(trial, later[0], _WORST)
            event = "continue" if goes_on else "stop"
            self.directory.append(Entry(trial, event, later[0], _WORST, later[0]))

    def _score(self, record: Record) -> tuple[float, float]:
        values = record._asdict()
        return values[self.field], values[self.tuning.how.metric]

    def _log(self, entry: Entry) -> None:
        self.ends[entry.trial] = entry
        self.directory.append(entry)

    def _finish(self) -> Iterable[Job]:
        self._lock.close()
        winner = self.best()
        if winner is None:
            return ()
        best = tunings.hyperparameters(self.tuning, winner.trial)
        self.directory.finish(best)
        return self.then(best)
