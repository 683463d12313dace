"""`qlrstudy report` and `qlrstudy export`, which load no learning framework."""

import argparse
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from qlrstudy import console

NAMES = ("report", "export")


def main(arguments: list[str] | None = None) -> int:
    """Run one of the two commands; 0 for done, 2 for a mistake."""
    parser = argparse.ArgumentParser("qlrstudy")
    add_parsers(parser.add_subparsers(required=True, metavar="COMMAND"))
    options = parser.parse_args(arguments)
    try:
        return options.command(options)
    except ValueError as error:
        console.ERR.print(f"qlrstudy: error: {error}", markup=False, soft_wrap=True)
        return 2


def add_parsers(commands: Any) -> None:
    """Add both commands to a parser's subcommands."""
    report = commands.add_parser(
        "report", help="a store's tables and figures, and a page to look at"
    )
    report.set_defaults(command=_report)
    report.add_argument("store", type=Path, metavar="STORE", help="only read")
    report.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("report"),
        metavar="DIR",
        help="what is there is replaced; ./report",
    )
    report.add_argument(
        "--figures",
        choices=["none", "svg", "all"],
        default="all",
        help="write figures not at all, as SVG, or as SVG, PDF and PNG (default); "
        "PDF and PNG take most of a report's time",
    )
    export = commands.add_parser("export", help="a store for another program")
    formats = export.add_subparsers(required=True, metavar="FORMAT")
    tensorboard = formats.add_parser("tensorboard", help="event files, one for a run")
    tensorboard.set_defaults(command=_export)
    tensorboard.add_argument("store", type=Path, metavar="STORE", help="only read")
    tensorboard.add_argument("directory", type=Path, metavar="DIR")


def _report(options: argparse.Namespace) -> int:
    from qlrstudy.report.write import write

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


def _export(options: argparse.Namespace) -> int:
    from qlrstudy.report.tensorboard import export

    with _progress() as watch:
        count, damage = export(options.store, options.directory, watch)
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
