"""What is shown while many runs are under way: a live table, or plain lines."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from qlrstudy.cli.display import ERR, duration, number
from qlrstudy.cluster.jobs import Board, Ending, Job
from qlrstudy.tuning.search import Search


@contextlib.contextmanager
def shown(title: str, searches: Sequence[Search]) -> Iterator[Callable[[Board], None]]:
    """Follow the work: rungs and best so far of each tuning, what runs, time left."""
    begin = time.monotonic()
    if not ERR.is_terminal:
        yield _Lines(begin).watch
        return
    with Live(console=ERR, refresh_per_second=4, transient=True) as live:
        yield lambda board: live.update(_picture(title, searches, board, begin))


class _Lines:
    """One line for each run that ended, for logs."""

    def __init__(self, begin: float) -> None:
        self.begin, self.said = begin, 0

    def watch(self, board: Board) -> None:
        for job, ending in board.ended[self.said :]:
            self.said += 1
            total = len(board.ended) + board.waiting + len(board.running)
            line = f"{self.said}/{total} {describe(job)}: {_result(ending)}"
            left = time_left(board, time.monotonic() - self.begin)
            ERR.print(f"{line} ({left})", markup=False, highlight=False, soft_wrap=True)


def describe(job: Job) -> str:
    """A run in a few words."""
    run = job.run
    kind = "trial" if job.pauses is not None else "seed"
    return f"{run.task.name} {run.algorithm.name} {kind} {run.seed}"


def time_left(board: Board, elapsed: float) -> str:
    """By the pace so far, which says little before much is done."""
    ended = len(board.ended)
    if not ended:
        return "time left unknown"
    left = elapsed / ended * (board.waiting + len(board.running))
    return f"about {duration(left)} left"


def _result(ending: Ending) -> str:
    if ending.record is None:
        last = ending.error.strip().splitlines()[-1:]
        return f"{ending.status} {' '.join(last)}"
    return f"{ending.status} {_losses(ending.record._asdict())}"


def _losses(values: dict[str, float]) -> str:
    shown = (f"{split} {number(values[f'{split}_loss'])}" for split in ("training",))
    return ", ".join([*shown, f"validation {number(values['validation_loss'])}"])


def _picture(
    title: str, searches: Sequence[Search], board: Board, begin: float
) -> Group:
    counts = Counter(ending.status for _, ending in board.ended)
    done = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    left = time_left(board, time.monotonic() - begin)
    state = f"{title}: {done or 'nothing done yet'}; {board.waiting} waiting; {left}"
    parts = [Text(state), _running(board)]
    open_ = [search for search in searches if search.is_open()]
    return Group(*parts, *([_rungs(open_)] if open_ else []))


def _running(board: Board) -> Table:
    table = Table("running", "done", "losses", title_justify="left")
    for job, progress in board.running:
        if progress is None:
            table.add_row(describe(job), "", "compiling")
        else:
            losses = _losses(progress.record._asdict())
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
            "–" if best is None else f"{number(best.loss)} (trial {best.trial})",
        )
    return table
