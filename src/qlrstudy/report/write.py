"""A report on the disk: tables, figures, the page, and what is missing in words."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from qlrstudy.report import page, render
from qlrstudy.report.contents import Contents, Watch, contents
from qlrstudy.report.drawing import look, save
from qlrstudy.report.figures import section_figures
from qlrstudy.report.overviews import paths, profile_figure, sweep_figures
from qlrstudy.report.tables import Table


class Written(NamedTuple):
    """What a report came to: its page, how many tables and figures, what is missing."""

    page: Path
    tables: int
    figures: int
    missing: list[str]


def write(
    store: Path, directory: Path, watch: Watch = lambda what, done, total: None
) -> Written:
    """Make the whole report of a store.

    Args:
        store: the directory of all runs; only read.
        directory: where to write; made if need be, and what is there is replaced.
        watch: told what is being done, and how much of it.

    Raises:
        ValueError: there is nothing to report, or nothing can be written.
    """
    found = contents(store, watch)
    try:
        return _write(found, directory, watch)
    except OSError as error:
        raise ValueError(
            f"-o {str(directory)!r}: cannot write {error.filename or directory}: "
            f"{error.strerror or error}; choose another directory"
        ) from error


def _write(found: Contents, directory: Path, watch: Watch) -> Written:
    folders = directory / "tables", directory / "figures"
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    lacking = found.missing
    page_path = directory / "index.html"
    page_path.write_text(page.html(found), encoding="utf-8")
    _write_tables(found.tables, folders[0])
    text = [render.markdown(table) for table in found.tables]
    lines = [f"- {render.escaped(line)}" for line in lacking] or ["Nothing."]
    whole = "\n".join(["# Report", "", *text, "## What is missing", "", *lines, ""])
    (directory / "report.md").write_text(whole, encoding="utf-8")
    with look():
        drawn = list(figures(found))
        for done, (name, made) in enumerate(drawn):
            watch("drawing figures", done, len(drawn))
            save(made, folders[1], name)
    tables = sum(bool(table.rows) for table in found.tables)
    return Written(page_path, tables, len(drawn), lacking)


def _write_tables(tables: Sequence[Table], folder: Path) -> None:
    for table in tables:
        (folder / f"{table.name}.md").write_text(render.markdown(table), "utf-8")
        if table.rows:
            (folder / f"{table.name}.tex").write_text(render.latex(table), "utf-8")
            csv = render.comma_separated(table)
            (folder / f"{table.name}.csv").write_text(csv, "utf-8")


def figures(found: Contents) -> Iterator[tuple[str, Figure]]:
    """Every figure, by the name of its files; to be drawn in the house's look."""
    for part in found.sections:
        yield from section_figures(part, found.evaluations, found.evolutions)
        trajectories = paths(part)
        if trajectories is not None:
            yield f"{part.key}-paths", trajectories
    yield from sweep_figures(found.sweeps)
    profile = profile_figure(found.cells)
    if profile is not None:
        yield "profiles", profile
