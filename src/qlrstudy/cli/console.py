"""Where the command line writes, and its tables. Loads no learning framework."""

import json
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Results go to stdout, all else to stderr, so that either can be sent elsewhere.
OUT, ERR = Console(), Console(stderr=True)


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to stdout, where no word is ever broken.

    On a terminal that is too narrow for it, each row is a paragraph; elsewhere each is
    a line, its cells separated by tabs, for other programs.
    """
    made = [list(row) for row in rows]
    if not OUT.is_terminal:
        _lines(title, header, made)
        return
    columns = [list(column) for column in zip(header, *made, strict=True)]
    widths = _widths(columns, OUT.width)
    if widths is None:
        _paragraphs(title, header, made)
        return
    OUT.print(Text(_wrapped(title, OUT.width), style="italic"), soft_wrap=True)
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name, width, column in zip(header, widths, columns, strict=True):
        numbers = all(_is_number(cell) for cell in column[1:] if cell)
        justify = "right" if numbers and any(column[1:]) else "left"
        shown.add_column(name, width=width, justify=justify)
    for row in made:
        shown.add_row(*map(Text, row))
    OUT.print(shown)


def facts(title: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Print names and what they stand for to stdout, a line for each."""
    if not OUT.is_terminal:
        _lines(title, (), [list(pair) for pair in pairs])
        return
    OUT.print(Text(title, style="bold"))
    width = max(len(name) for name, _ in pairs)
    for name, value in pairs:
        lines = _wrapped(value, OUT.width, f"  {name:{width}}  ")
        OUT.print(lines, markup=False, highlight=False, soft_wrap=True)


def as_json(value: Any) -> None:
    """Print a value to stdout as a line of JSON."""
    OUT.file.write(json.dumps(value, ensure_ascii=False) + "\n")


def tell(text: str) -> None:
    """Print a sentence to stdout: a line, or on a terminal as many as it needs."""
    _print(OUT, text)


def say(text: str) -> None:
    """Print a sentence to stderr, likewise."""
    _print(ERR, text)


def _print(console: Console, text: str) -> None:
    if console.is_terminal:
        text = "\n".join(
            _wrapped(line.lstrip(), console.width, line[: -len(line.lstrip()) or None])
            for line in text.splitlines() or [""]
        )
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _wrapped(line: str, width: int, before: str = "") -> str:
    """A line as several that fit, no word broken, all after what stands `before`.

    What alone is too long, a path say, is left to the terminal: it is copied whole.
    """
    if len(before) + len(line) <= width:
        return before + line
    return textwrap.fill(
        line,
        width,
        initial_indent=before,
        subsequent_indent=" " * len(before),
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    )


def _lines(title: str, header: Sequence[str], rows: list[list[str]]) -> None:
    tell(f"# {title}")
    for row in [list(header)] * bool(header) + rows:
        # Not `tell`, which makes spaces of tabs.
        OUT.file.write("\t".join(" ".join(cell.split()) for cell in row) + "\n")


def _paragraphs(title: str, header: Sequence[str], rows: list[list[str]]) -> None:
    OUT.print(Text(title, style="italic"))
    for first, *rest in rows:
        OUT.print(Text(first, style="bold"), soft_wrap=True)
        grid = Table.grid(padding=(0, 2, 0, 0))
        for name, cell in zip(header[1:], rest, strict=True):
            if cell:
                grid.add_row(Text(f"  {name}"), Text(cell, overflow="fold"))
        OUT.print(grid)


def _widths(columns: Sequence[Sequence[str]], whole: int) -> list[int] | None:
    """Of a table's columns, the widest made narrower; `None` if words would break."""
    least = [max(map(_longest_word, column)) for column in columns]
    widths = [max(map(len, column)) for column in columns]
    # Each column has a space at its right and one between it and the next, or the edge.
    while sum(widths) + 2 * len(widths) + 1 > whole:
        spare = [i for i, width in enumerate(widths) if width > least[i]]
        if not spare:
            return None
        widths[max(spare, key=lambda i: widths[i])] -= 1
    return widths


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def _is_number(text: str) -> bool:
    return text[:1].isdigit() and text.replace(",", "").replace(".", "").isdigit()
