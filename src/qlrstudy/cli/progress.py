"""What is shown while runs are under way: a live table, or plain lines."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from qlrstudy.cli.console import ERR, say
from qlrstudy.cli.results import duration, number
from qlrstudy.cluster.jobs import Ending, Job, Snapshot
from qlrstudy.spec import Record
from qlrstudy.training.outcome import Progress
from qlrstudy.tuning.search import Search


@contextlib.contextmanager
def one_run(title: str) -> Iterator[Callable[[Progress], None]]:
    """A line that follows a run: epoch, losses, step size, damping, time left."""
    columns = [
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    ]
    quiet = not ERR.is_terminal
    with Bar(*columns, console=ERR, transient=True, disable=quiet) as bar:
        line = bar.add_task(title, total=1.0, state="compiling")

        def watch(now: Progress) -> None:
            state = (
                f"epoch {now.epoch:.4g}  "
                f"minibatch loss {number(float(now.report.loss))}  "
                f"validation loss {number(now.record.validation_loss)}  "
                f"step size {number(float(now.report.step_size))}  "
                f"damping {number(float(now.report.damping))}"
            )
            bar.update(line, completed=now.done, state=state)

        yield watch


@contextlib.contextmanager
def many_runs(
    title: str, searches: Sequence[Search]
) -> Iterator[Callable[[Snapshot], None]]:
    """Follow the work: rungs and best so far of each tuning, what runs, time left."""
    begin = time.monotonic()
    if not ERR.is_terminal:
        yield _Lines(begin).watch
        return
    with Live(console=ERR, refresh_per_second=4, transient=True) as live:
        yield lambda snapshot: live.update(_picture(title, searches, snapshot, begin))


class _Lines:
    """One line for each run that ended, for logs."""

    def __init__(self, begin: float) -> None:
        self.begin, self.said = begin, 0

    def watch(self, snapshot: Snapshot) -> None:
        new = snapshot.ended[self.said :]
        found = sum(ending.found for _, ending in new)
        if found:
            say(f"{found} runs found in the store: not done again")
        for job, ending in new:
            self.said += 1
            if ending.found:
                continue
            total = len(snapshot.ended) + snapshot.waiting + len(snapshot.running)
            line = f"{self.said}/{total} {describe(job)}: {_result(ending)}"
            left = time_left(snapshot, time.monotonic() - self.begin)
            say(f"{line} ({left})")


def describe(job: Job) -> str:
    """A run in a few words."""
    run = job.run
    which = f"seed {run.seed}" if job.trial is None else f"trial {job.trial}"
    return f"{run.task.name} {run.algorithm.name} {which}"


def time_left(snapshot: Snapshot, elapsed: float) -> str:
    """By the pace so far, once each worker may have ended a run.

    Runs that were found took no time, and say nothing of it.
    """
    ended = sum(not ending.found for _, ending in snapshot.ended)
    if ended < max(1, len(snapshot.running)):
        return "time left unknown yet"
    left = elapsed / ended * (snapshot.waiting + len(snapshot.running))
    return f"about {duration(left)} left"


def _result(ending: Ending) -> str:
    if ending.record is None:
        last = ending.error.strip().splitlines()[-1:]
        return f"{ending.status} {' '.join(last)}"
    return f"{ending.status} {_losses(ending.record)}"


def _losses(record: Record) -> str:
    training, validation = number(record.training_loss), number(record.validation_loss)
    return f"training {training}, validation {validation}"


def _picture(
    title: str, searches: Sequence[Search], snapshot: Snapshot, begin: float
) -> Group:
    counts = Counter(ending.status for _, ending in snapshot.ended)
    done = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    left = time_left(snapshot, time.monotonic() - begin)
    state = f"{title}: {done or 'nothing done yet'}; {snapshot.waiting} waiting; {left}"
    parts = [Text(state), _running(snapshot)]
    open_ = [search for search in searches if search.is_open()]
    return Group(*parts, *([_rungs(open_)] if open_ else []))


def _running(snapshot: Snapshot) -> Table:
    table = Table("running", "done", "losses", title_justify="left")
    for job, progress in snapshot.running:
        if progress is None:
            table.add_row(describe(job), "", "compiling")
        else:
            losses = _losses(progress.record)
            table.add_row(describe(job), f"{progress.done:.0%}", losses)
    return table


def _rungs(searches: Sequence[Search]) -> Table:
    """One line for each tuning: trials in each rung (those that went on), and best."""
    table = Table("tuning", "ended", "rungs: reached (went on)", "best so far")
    for search in searches:
        tuning, best = search.tuning, search.best()
        rungs = "  ".join(
            f"{milestone:g}: {reached} ({on})"
            for milestone, reached, on in search.rungs()
        )
        table.add_row(
            f"{tuning.task.name} {tuning.algorithm.name}",
            f"{len(search.ends)} of {tuning.how.samples}",
            rungs,
            "–" if best is None else f"{number(best.score)} (trial {best.trial})",
        )
    return table
