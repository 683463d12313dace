"""`qlrstudy report` and `qlrstudy export`, which load no learning framework."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from qlrstudy.cli import console
from qlrstudy.report import tensorboard
from qlrstudy.report.one_rate import OneRate
from qlrstudy.report.ranking import Ranking
from qlrstudy.report.render import short
from qlrstudy.report.write import Formats, write
from qlrstudy.store.unpacking import unpack

# Methods of a verdict.
_SHOWN = 5
_FORMATS = {"none": "", "svg": ", as SVG", "all": ", as SVG, PDF and PNG"}


def report(store: Path, output: Path, formats: Formats) -> int:
    """Write a report."""

    def ready(page: Path) -> None:
        console.say(f"page ready: {page}")  # above the lines of progress

    with _unpacked(store) as directory, _progress() as watch:
        written = write(directory, output, formats, watch, ready)
    pairs = [
        ("tables", f"{written.tables}, as Markdown, LaTeX and CSV"),
        ("figures", f"{written.figures}{_FORMATS[formats]}"),
        *[("mind", line) for line in written.warnings],
    ]
    console.facts("Report", pairs)
    if written.ranking is not None:
        _tell_who_wins(written.ranking)
    if written.one_rate is not None:
        _tell_of_one_rate(written.one_rate)
    console.tell(f"page: {written.page}")
    return 0


def _tell_who_wins(found: Ranking) -> None:
    """The verdict: the first, and ours if they are not among them."""
    count = len(found.contests)
    title = (
        f"Who wins: final test loss over {found.reference_title}'s, {count} "
        f"comparison{'s' * (count != 1)}"
    )
    rows = [
        [
            f"{place}{' *' * rank.best}",
            rank.title,
            f"{short(rank.ratio)} ({short(rank.low)} to {short(rank.high)})",
            "/".join(map(str, found.records[found.reference][rank.algorithm])),
        ]
        for place, rank in enumerate(found.ranks, 1)
        if place <= _SHOWN or rank.algorithm in (found.reference, "adamqlr")
    ]
    header = ["place", "method", "ratio (95 % interval)", "wins/ties/losses"]
    console.table(title, header, rows)
    console.tell("* the first, or not to be told from it")


def _tell_of_one_rate(found: OneRate) -> None:
    """What people get who do not tune."""
    title = f"One learning rate of Adam in all {found.cells}, over AdamQLR"
    rows = [
        [f"{rate:g}", f"{short(own.value)} ({short(own.low)} to {short(own.high)})"]
        for rate, own in found.ratios.items()
    ]
    console.table(title, ["rate", "ratio (95 % interval)"], rows)
    worse = sum(own.value > 1 for own in found.ratios.values())
    console.tell(
        f"AdamQLR, which has no learning rate, ends below {worse} of these {len(rows)}"
    )


def export(store: Path, directory: Path) -> int:
    """Write event files for TensorBoard."""
    with _unpacked(store) as runs, _progress() as watch:
        count, damage = tensorboard.export(runs, directory, watch)
    pairs = [
        ("runs", str(count)),
        ("look with", f"tensorboard --logdir {directory}"),
        *[("damaged", f"{run}: {problem}") for run, problem in damage],
    ]
    console.facts("TensorBoard", pairs)
    return 0


@contextlib.contextmanager
def _unpacked(store: Path) -> Iterator[Path]:
    """A store as it is; one that is packed in a file, for the while it is read."""
    if not store.is_file():
        yield store
        return
    with tempfile.TemporaryDirectory(prefix="qlrstudy-") as folder:
        directory = Path(folder) / store.stem
        unpack(store, directory)
        yield directory


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None]]:
    """A line for each thing that is being done."""
    columns = [TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn()]
    quiet = not console.ERR.is_terminal
    with Progress(
        *columns, console=console.ERR, transient=True, disable=quiet
    ) as progress:
        lines: dict[str, Any] = {}

        def watch(what: str, done: int, total: int) -> None:
            if what not in lines:
                lines[what] = progress.add_task(what, total=total)
            progress.update(lines[what], completed=done, total=total)

        yield watch
