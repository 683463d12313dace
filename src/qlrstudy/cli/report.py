"""`qlrstudy report` and `qlrstudy export`, which load no learning framework."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from qlrstudy.cli import console
from qlrstudy.report import tensorboard
from qlrstudy.report.write import Formats, write

_FORMATS = {"none": "", "svg": ", as SVG", "all": ", as SVG, PDF and PNG"}


def report(store: Path, output: Path, formats: Formats) -> int:
    """Write a report."""

    def ready(page: Path) -> None:
        console.tell(f"page ready: {page}")

    with _progress() as watch:
        written = write(store, output, formats, watch, ready)
    pairs = [
        ("tables", f"{written.tables}, as Markdown, LaTeX and CSV"),
        ("figures", f"{written.figures}{_FORMATS[formats]}"),
        *[("mind", line) for line in written.warnings],
    ]
    console.facts("Report", pairs)
    return 0


def export(store: Path, directory: Path) -> int:
    """Write event files for TensorBoard."""
    with _progress() as watch:
        count, damage = tensorboard.export(store, directory, watch)
    pairs = [
        ("runs", str(count)),
        ("look with", f"tensorboard --logdir {directory}"),
        *[("damaged", f"{run}: {problem}") for run, problem in damage],
    ]
    console.facts("TensorBoard", pairs)
    return 0


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
