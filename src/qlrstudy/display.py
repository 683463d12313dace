"""What the command line shows: live progress, and tables at the end."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from qlrstudy import train
from qlrstudy.spec import Record

# Results go to stdout, all else to stderr, so that either can be sent elsewhere.
OUT, ERR = Console(), Console(stderr=True)


@contextlib.contextmanager
def live(title: str) -> Iterator[Callable[[train.Progress], None]]:
    """A line that follows a run: epoch, losses, step size, damping, time left."""
    columns = [
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    ]
    quiet = not ERR.is_terminal
    with Progress(*columns, console=ERR, transient=True, disable=quiet) as progress:
        line = progress.add_task(title, total=1.0, state="compiling")

        def watch(now: train.Progress) -> None:
            state = (
                f"epoch {now.epoch:.4g}  "
                f"minibatch loss {number(float(now.report.loss))}  "
                f"validation loss {number(now.record.validation_loss)}  "
                f"step size {number(float(now.report.step_size))}  "
                f"damping {number(float(now.report.damping))}"
            )
            progress.update(line, completed=now.done, state=state)

        yield watch


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to stdout."""
    shown = Table(title=title, title_justify="left")
    for place, name in enumerate(header):
        shown.add_column(name, overflow="fold", no_wrap=place == 0)
    for row in rows:
        shown.add_row(*row)
    OUT.print(shown)


def summary(title: str, outcome: train.Outcome, caveats: Sequence[str]) -> None:
    """Print how a run ended."""
    record = outcome.record
    losses = [
        ["minibatch training loss", number(record.minibatch_training_loss)],
        *_lines(record, "loss"),
        *_lines(record, "accuracy"),
    ]
    rows = [
        ["status", outcome.status],
        ["steps (epochs)", f"{record.step:,} ({record.epoch:,.4g})"],
        ["training / compiling", _seconds(record, outcome.compile_seconds)],
        *losses,
        ["stored in", str(outcome.path)],
        *[["caveat", caveat] for caveat in caveats],
    ]
    table(title, ["", ""], rows)


def number(value: float) -> str:
    """Four digits, or a dash for what there is not."""
    return "–" if math.isnan(value) else f"{value:.4g}"


def _lines(record: Record, quantity: str) -> list[list[str]]:
    values = record._asdict()
    names = [f"{split}_{quantity}" for split in ("training", "validation", "test")]
    return [
        [name.replace("_", " "), number(values[name])]
        for name in names
        if not math.isnan(values[name]) or quantity == "loss"
    ]


def _seconds(record: Record, compile_seconds: float) -> str:
    return f"{record.training_seconds:.3g} s / {compile_seconds:.3g} s"
