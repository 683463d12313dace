"""Tables as Markdown and as CSV, and cells as people read them; text is escaped."""

import csv
import io
import math
from collections.abc import Iterator

from qlrstudy.report.comparison import Compared
from qlrstudy.report.statistics import Estimate
from qlrstudy.report.tables import Entry, Table

_MARKDOWN = {c: f"\\{c}" for c in "\\|*_`[]#"} | {
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
}


def markdown(table: Table) -> str:
    """With its title, note, and what is missing."""
    lines = [f"## {escaped(table.title)}", ""]
    if table.rows:
        lines.append(_row(escaped(name) for name in table.header))
        lines.append("|" + "---|" * len(table.header))
        lines += [_row(escaped(text(cell)) for cell in row) for row in table.rows]
        lines.append("")
    if table.note:
        lines += [escaped(table.note), ""]
    if table.missing:
        lines += ["Missing:", ""]
        lines += [f"- {escaped(line)}" for line in table.missing] + [""]
    return "\n".join(lines)


def comma_separated(table: Table) -> str:
    """Plain numbers; an error, the paper's value and error in columns of their own."""
    kinds = [_kind([row[i] for row in table.rows]) for i in range(len(table.header))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header: list[str] = []
    for name, kind in zip(table.header, kinds, strict=True):
        header += [name + suffix for suffix in _SUFFIXES[kind]]
    writer.writerow([_plain(name) for name in header])
    for row in table.rows:
        cells: list[str] = []
        for cell, kind in zip(row, kinds, strict=True):
            cells += _numbers(cell, kind)
        writer.writerow(cells)
    return out.getvalue()


def text(cell: Entry) -> str:
    """A cell as people read it."""
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Estimate):
        return _with_error(cell)
    if isinstance(cell, Compared):
        assert cell.theirs is not None
        both = f"{_with_error(cell.ours)} / {_with_error(cell.theirs)}"
        same = math.isnan(cell.apart) or cell.apart == 0
        return both if same else f"{both} ({_apart(cell)})"
    return number(cell)


def escaped(found: str) -> str:
    """Any text, for Markdown."""
    return "".join(_MARKDOWN.get(mark, mark) for mark in _one_line(found))


def number(value: float) -> str:
    """Four digits, thousands marked."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:.4g}"


def short(ratio: float) -> str:
    """A ratio with two digits after the point, if it is between 0.01 and 100."""
    if ratio < 0.01:
        return "<0.01"
    return f"{ratio:.2f}" if ratio <= 100 else ">100"


def _with_error(estimate: Estimate) -> str:
    if not estimate.error:
        return number(estimate.value)
    large = 100 <= estimate.error < 1e6
    error = f"{estimate.error:,.0f}" if large else f"{estimate.error:.2g}"
    return f"{number(estimate.value)} ± {error}"


def _apart(both: Compared) -> str:
    apart = both.apart
    return f"{apart:+.1f}" if math.isfinite(apart) else number(apart)


_SUFFIXES = {
    "plain": ("",),
    "estimate": ("", " error"),
    "compared": ("", " error", " (paper)", " error (paper)", " apart"),
}


def _kind(cells: list[Entry]) -> str:
    if any(isinstance(cell, Compared) for cell in cells):
        return "compared"
    return "estimate" if any(isinstance(cell, Estimate) for cell in cells) else "plain"


def _numbers(cell: Entry, kind: str) -> Iterator[str]:
    width = len(_SUFFIXES[kind])
    if isinstance(cell, Compared) and cell.theirs is not None:
        values: list[Entry] = [*cell.ours, *cell.theirs, cell.apart]
    elif isinstance(cell, Estimate):
        values = [*cell]
    else:
        values = [cell]
    for value in values + [None] * (width - len(values)):
        yield "" if value is None else _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(value)
    # A spreadsheet would take these for a formula.
    found = str(value)
    return f"'{found}" if found[:1] in ("=", "+", "-", "@", "\t", "\r") else found


def _one_line(found: str) -> str:
    return " ".join(found.split())


def _row(cells: Iterator[str]) -> str:
    return "| " + " | ".join(cells) + " |"
