"""A report on the disk: the page, tables, figures, and what to mind in words."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from qlrstudy.report import figures, latex, page, render
from qlrstudy.report.contents import Contents, Watch, contents
from qlrstudy.report.one_rate import OneRate
from qlrstudy.report.ranking import Ranking
from qlrstudy.report.tables import Table

Formats = Literal["none", "svg", "all"]
_KINDS = {"tables": (".md", ".tex", ".csv"), "figures": (".svg", ".pdf", ".png")}


class Written(NamedTuple):
    """What a report came to: its page, how many tables and figures, who wins."""

    page: Path
    tables: int
    figures: int
    warnings: list[str]
    ranking: Ranking | None
    one_rate: OneRate | None


def write(
    store: Path,
    directory: Path,
    formats: Formats = "all",
    watch: Watch = lambda what, done, total: None,
    ready: Callable[[Path], None] = lambda page: None,
) -> Written:
    """Make the whole report of a store.

    Args:
        store: the directory of all runs; only read.
        directory: where to write; made if need be, and a report there is replaced.
        formats: of the figures: none, SVG alone, or PDF and PNG too.
        watch: told what is being done, and how much of it.
        ready: told the page's path as soon as it can be opened.

    Raises:
        ValueError: there is nothing to report, nothing can be written, or the directory
            is the store.
    """
    _refuse_store(store, directory)
    found = contents(store, watch)
    try:
        _clear(directory)
        page_path = _write_page(found, directory)
        ready(page_path)
        _write_tables(found, directory)
        drawn = _write_figures(found, directory / "figures", formats, watch)
    except OSError as error:
        raise ValueError(
            f"-o {str(directory)!r}: cannot write {error.filename or directory}: "
            f"{error.strerror or error}; choose another directory"
        ) from error
    tables = sum(bool(table.rows) for table in found.tables)
    return Written(
        page_path, tables, drawn, found.warnings, found.ranking, found.one_rate
    )


def _refuse_store(store: Path, directory: Path) -> None:
    """A report lies beside its store, which whoever packs or copies it has alone."""
    if directory.resolve() == store.resolve():
        raise ValueError(
            f"-o {str(directory)!r} is the store itself, which is only read: choose a "
            "directory beside or inside it"
        )


def _clear(directory: Path) -> None:
    """Take away the tables and figures of a former report, if there is one."""
    if not (directory / "report.md").exists():
        return
    for folder, kinds in _KINDS.items():
        for path in (directory / folder).glob("*"):
            if path.suffix in kinds and path.is_file():
                path.unlink()


def _write_page(found: Contents, directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "index.html"
    path.write_text(page.html(found), encoding="utf-8")
    return path


def _write_tables(found: Contents, directory: Path) -> None:
    folder = directory / "tables"
    folder.mkdir(exist_ok=True)
    for table in found.tables:
        _write_table(table, folder)
    text = [render.markdown(table) for table in found.tables]
    lines = [f"- {render.escaped(line)}" for line in found.warnings] or ["Nothing."]
    whole = "\n".join(["# Report", "", *text, "## What to mind", "", *lines, ""])
    (directory / "report.md").write_text(whole, encoding="utf-8")


def _write_table(table: Table, folder: Path) -> None:
    (folder / f"{table.name}.md").write_text(render.markdown(table), "utf-8")
    if table.rows:
        (folder / f"{table.name}.tex").write_text(latex.latex(table), "utf-8")
        csv = render.comma_separated(table)
        (folder / f"{table.name}.csv").write_text(csv, "utf-8")


def _write_figures(
    found: Contents, folder: Path, formats: Formats, watch: Watch
) -> int:
    if formats == "none":
        return 0
    folder.mkdir(exist_ok=True)
    printed: Sequence = [chart for chart in found.charts if chart.printed]
    for done, chart in enumerate(printed, 1):
        figures.save(chart, folder, svg_alone=formats == "svg")
        watch("drawing figures", done, len(printed))
    return len(printed)
