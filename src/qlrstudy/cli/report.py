"""`qlrstudy report` and `qlrstudy export`, which load no learning framework."""

import argparse
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from qlrstudy.cli import console
from qlrstudy.report import tensorboard
from qlrstudy.report.write import write


def report(options: argparse.Namespace) -> int:
    """Write a report."""

    def ready(page: Path) -> None:
        console.OUT.print(f"page ready: {page}", markup=False, soft_wrap=True)

    with _progress() as watch:
        written = write(options.store, options.output, options.figures, watch, ready)
    formats = {"none": "", "svg": ", as SVG", "all": ", as SVG, PDF and PNG"}
    rows = [
        ["tables", f"{written.tables}, as Markdown, LaTeX and CSV"],
        ["figures", f"{written.figures}{formats[options.figures]}"],
        *[["mind", line] for line in written.warnings],
    ]
    console.table("Report", ["", ""], rows)
    return 0


def export(options: argparse.Namespace) -> int:
    """Write event files for TensorBoard."""
    with _progress() as watch:
        count, damage = tensorboard.export(options.store, options.directory, watch)
    rows = [
        ["runs", str(count)],
        ["look with", f"tensorboard --logdir {options.directory}"],
        *[["damaged", f"{run}: {problem}"] for run, problem in damage],
    ]
    console.table("TensorBoard", ["", ""], rows)
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
