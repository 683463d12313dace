"""One run: from (task, algorithm, settings, seed, budget) to records on the disk.

Training goes in stretches of about a second, between which the run can be watched
and stopped; within one, nothing waits for the host. Evaluation happens at chosen steps
and outside the training time.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import msgspec
import numpy as np

from qlrstudy.spec import Dataset, Record, Run, Split, StepReport
from qlrstudy.store.checkpoints import Checkpoint
from qlrstudy.store.files import DamagedError
from qlrstudy.store.manifest import Status
from qlrstudy.store.runs import RunDirectory, run_directory
from qlrstudy.training import loops, provenance
from qlrstudy.training.evaluate import evaluate
from qlrstudy.training.outcome import Outcome, Progress

STRETCH_SECONDS = 1.0
# At least so long from one checkpoint to the next, and so many times its own cost.
CHECKPOINT_SECONDS, CHECKPOINT_COST = 2.0, 20.0


def train(
    run: Run,
    data: Dataset,
    store: Path,
    *,
    watch: Callable[[Progress], None] = lambda progress: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Do a run, or what is left of it, or nothing if the store has it already.

    Args:
        run: what to do.
        data: the task's.
        store: the directory of all runs.
        watch: called after each stretch of steps.
        should_stop: asked after each stretch; if so, the run is kept for later.

    Raises:
        StoreError: the store cannot be written, or another process has the run.
        ValueError: a package is missing that the algorithm needs.
    """
    known = provenance.identity(run, provenance.data_identity(data))
    directory = run_directory(store, known)
    with directory.claim():
        try:
            ended, damage = directory.ended(), ""
        except DamagedError as error:
            ended, damage = None, str(error)
        if ended is not None:
            manifest, last = ended
            seconds = manifest.compile_seconds or 0.0
            return Outcome(
                manifest.status, last, seconds, directory.path, last.step, found=True
            )
        run.algorithm.check()
        training = _Training(run, data, directory)
        outcome = training.go(watch, should_stop)
        return outcome._replace(damage=damage or training.damage)


class _Training:
    """The moving parts of a run: a carry, and how far and how long it has come."""

    def __init__(self, run: Run, data: Dataset, directory: RunDirectory) -> None:
        self.run, self.directory = run, directory
        self.manifest = provenance.manifest(run, data)
        directory.write_manifest(self.manifest)

        begin = time.perf_counter()
        splits = (data.train, data.validation, data.test)
        self.splits: list[Split] = jax.device_put(list(splits))
        self.loop = loops.loop(run, self.splits[0])
        self.carry = self.loop.prepare(self.loop.init())
        self.step, self.training_seconds, self.best_pace = 0, 0.0, 0.0
        self.report = StepReport(*[np.float32(math.nan)] * len(StepReport._fields))
        first = self._evaluated()
        self.compile_seconds = time.perf_counter() - begin

        self.damage = ""
        try:
            checkpoint = directory.restore()
            if checkpoint is not None:
                self._take_up(checkpoint)
        except DamagedError as error:
            checkpoint, self.damage = None, str(error)
            directory.clear()
        if checkpoint is None:
            self.record = first
            self._keep()
        self.saved_at, self.save_cost = time.perf_counter(), 0.0

    def go(
        self, watch: Callable[[Progress], None], should_stop: Callable[[], bool]
    ) -> Outcome:
        """Train to the end of the budget, divergence, or a wish to stop.

        A loss of zero is an end too: no gradient is left, only quotients of zeros.
        """
        status = Status.RUNNING
        while status == Status.RUNNING:
            sound = self._advance(self._next_stop())
            done = self._done()
            if not sound or done >= 1 or self._evaluation_is_due():
                self.record = self._evaluated()
                self._keep()
            watch(self._progress(done))
            if not (sound and math.isfinite(self.record.training_loss)):
                status = Status.DIVERGED
            elif done >= 1 or self.record.training_loss == 0:
                status = Status.FINISHED
            elif should_stop():
                status = Status.INTERRUPTED
            elif self._checkpoint_is_due():
                self._save()
        return self._end(status)

    def _advance(self, stop: int) -> bool:
        """Take steps, and say whether all losses were finite."""
        begin = time.perf_counter()
        self.carry, reports = self.loop.advance(self.carry, self.step, stop)
        seconds = time.perf_counter() - begin
        self.training_seconds += seconds
        self.best_pace = max(self.best_pace, (stop - self.step) / max(seconds, 1e-9))
        finite = np.isfinite(reports.loss)
        sound = bool(finite.all())
        taken = len(finite) if sound else int(np.argmin(finite)) + 1
        reports = StepReport(*[values[:taken] for values in reports])
        self.report = StepReport(*[values[-1] for values in reports])
        self.directory.append_steps(reports)
        self.step += taken
        return sound

    def _next_stop(self) -> int:
        """The step to train to: not far, and not past the next evaluation."""
        if self.step == 0:
            return 1
        # The best pace so far: on a busy machine a stretch waits before it begins, and
        # by the mean pace it would stay so short that most of its time is waiting.
        pace, seconds = self.best_pace, STRETCH_SECONDS
        total, interval = self._total_steps(), self._interval()
        if total is None:
            pace = self.step / max(self.training_seconds, 1e-9)
            seconds = min(seconds, self.run.budget.amount - self.training_seconds)
        stop = self.step + min(max(1, int(pace * seconds)), loops.CAPACITY)
        if total is None or interval is None:
            return stop
        return min(stop, total, (self.step // interval + 1) * interval)

    def _total_steps(self) -> int | None:
        return self.run.budget.total_steps(self.loop.steps_per_epoch)

    def _interval(self) -> int | None:
        return self.run.evaluation_interval(self.loop.steps_per_epoch)

    def _evaluation_is_due(self) -> bool:
        interval = self._interval()
        if interval is not None:
            return self.step % interval == 0
        since = self.training_seconds - self.record.training_seconds
        return since >= self.run.budget.amount / self.run.task.evaluations

    def _done(self) -> float:
        total = self._total_steps()
        if total is not None:
            return self.step / total
        return self.training_seconds / self.run.budget.amount

    def _evaluated(self) -> Record:
        params, state = self.loop.params(self.carry)
        training, validation, test = [
            evaluate(self.run.task, params, state, split) for split in self.splits
        ]
        return Record(
            step=self.step,
            epoch=self.step / self.loop.steps_per_epoch,
            training_seconds=self.training_seconds,
            minibatch_training_loss=float(self.report.loss),
            training_loss=training.loss,
            validation_loss=validation.loss,
            test_loss=test.loss,
            training_accuracy=training.accuracy,
            validation_accuracy=validation.accuracy,
            test_accuracy=test.accuracy,
            step_size=float(self.report.step_size),
            damping=float(self.report.damping),
            minibatch_training_accuracy=float(self.report.accuracy),
        )

    def _keep(self) -> None:
        self.directory.append_record(self.record)
        if self.run.task.traced:
            params, _ = self.loop.params(self.carry)
            self.directory.append_position(self.step, np.ravel(params).tolist())

    def _progress(self, done: float) -> Progress:
        epoch = self.step / self.loop.steps_per_epoch
        return Progress(
            self.step, epoch, done, self.report, self.record, self.training_seconds
        )

    def _checkpoint_is_due(self) -> bool:
        wait = max(CHECKPOINT_SECONDS, CHECKPOINT_COST * self.save_cost)
        return time.perf_counter() - self.saved_at > wait

    def _save(self) -> None:
        begin = time.perf_counter()
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.carry)]
        self.directory.save(
            Checkpoint(self.step, self.training_seconds, self.compile_seconds, leaves)
        )
        self.saved_at = time.perf_counter()
        self.save_cost = self.saved_at - begin

    def _take_up(self, checkpoint: Checkpoint) -> None:
        leaves, structure = jax.tree.flatten(self.carry)
        before = [r for r in self.directory.records() if r.step <= checkpoint.step]
        if [x.shape for x in checkpoint.leaves] != [x.shape for x in leaves] or not (
            before and len(self.directory.steps().loss) == checkpoint.step
        ):
            path = self.directory.path / "checkpoint.npz"
            raise DamagedError(path, "is of another run, or of another version")
        restored = [
            jax.device_put(saved.astype(leaf.dtype))
            for saved, leaf in zip(checkpoint.leaves, leaves, strict=True)
        ]
        self.carry: Any = jax.tree.unflatten(structure, restored)
        self.step = checkpoint.step
        self.training_seconds = checkpoint.training_seconds
        self.compile_seconds += checkpoint.compile_seconds
        self.record = before[-1]

    def _end(self, status: Status) -> Outcome:
        if status == Status.INTERRUPTED:
            self._save()
            # For those who look; the run's own evaluations stay where they were due.
            self.record = self._evaluated()
        summary = msgspec.structs.replace(
            self.manifest,
            status=status,
            steps=self.step,
            compile_seconds=self.compile_seconds,
            last=self.record._asdict(),
        )
        if status.is_final:
            self.directory.close(summary)
        else:
            self.directory.write_manifest(summary)
        return Outcome(
            status, self.record, self.compile_seconds, self.directory.path, self.step
        )
