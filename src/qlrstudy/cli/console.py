"""Where the command line writes, and its tables. Loads no learning framework."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

# Results go to stdout, all else to stderr, so that either can be sent elsewhere.
OUT, ERR = Console(), Console(stderr=True)


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to stdout."""
    shown = Table(title=title, title_justify="left")
    for place, name in enumerate(header):
        shown.add_column(name, overflow="fold", no_wrap=place == 0)
    for row in rows:
        shown.add_row(*map(escape, row))
    OUT.print(shown)


def tell(text: str) -> None:
    """Print a plain line to stdout."""
    OUT.print(text, markup=False, highlight=False, soft_wrap=True)


def say(text: str) -> None:
    """Print a plain line to stderr."""
    ERR.print(text, markup=False, highlight=False, soft_wrap=True)
