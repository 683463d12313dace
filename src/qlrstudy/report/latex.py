r"""Tables as LaTeX that fits pages, to be read by a paper's own source.

A table goes over as many pages as it takes (longtable), and lies across them where it
is wide (pdflscape); numbers are set by siunitx. `PREAMBLE` has what it needs.
"""

import math

from qlrstudy.report.comparison import Compared
from qlrstudy.report.render import number, text
from qlrstudy.report.statistics import Estimate
from qlrstudy.report.tables import Entry, Table

PREAMBLE = r"\usepackage{array,booktabs,longtable,pdflscape,siunitx}"

_MARKS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "ε": r"$\varepsilon$",
    "–": "--",
    "−": "$-$",
    "×": r"$\times$",
    "∞": r"$\infty$",
}
# Characters of a line of `\footnotesize`, upright and across; with more, cells wrap.
_UPRIGHT, _ACROSS = 84, 140
# Of the widest column, and between two.
_WIDEST, _SPACE = 36, 3


def latex(table: Table) -> str:
    """A table on its own, with `PREAMBLE` in the document's."""
    widths = _widths(table)
    room = _UPRIGHT if sum(widths) <= _UPRIGHT else _ACROSS
    shares = [width / max(room, sum(widths)) for width in widths]
    columns = "".join(
        rf">{{\raggedright\arraybackslash}}"
        rf"p{{\dimexpr {share:.4f}\linewidth-2\tabcolsep\relax}}"
        for share in shares
    )
    header = _row([escaped(name) for name in table.header])
    lines = [
        f"% {PREAMBLE}",
        *[f"% missing: {' '.join(line.split())}" for line in table.missing],
        r"\begingroup\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\begin{{longtable}}{{{columns}}}",
        rf"  \caption{{{escaped(table.title)}}}\label{{tab:{table.name}}} \\",
        *[r"  \toprule", header, r"  \midrule", r"  \endfirsthead"],
        *[r"  \toprule", header, r"  \midrule", r"  \endhead"],
        *[r"  \bottomrule", r"  \endfoot"],
        *[_row([_cell(cell) for cell in row]) for row in table.rows],
        *[r"\end{longtable}", r"\endgroup"],
    ]
    if room == _ACROSS:
        lines = [r"\begin{landscape}", *lines, r"\end{landscape}"]
    return "\n".join([*lines, ""])


def escaped(found: str) -> str:
    """Any text, on one line."""
    return "".join(_MARKS.get(mark, mark) for mark in " ".join(found.split()))


def _widths(table: Table) -> list[int]:
    """Characters of each column: of its longest cell, or so few that all fit."""
    rows = [[text(cell) for cell in row] for row in table.rows]
    columns = [list(cells) for cells in zip(table.header, *rows, strict=True)]
    widths = []
    for widest in range(_WIDEST, 0, -1):
        widths = [_width(cells, widest) for cells in columns]
        if sum(widths) <= _ACROSS:
            break
    return widths


def _width(cells: list[str], widest: int) -> int:
    """No less than the longest word, with the space between columns."""
    word = max(len(word) for cell in cells for word in [*cell.split(), ""])
    return _SPACE + max(word, min(widest, max(map(len, cells))))


def _cell(cell: Entry) -> str:
    if isinstance(cell, Compared):
        assert cell.theirs is not None
        both = f"{_estimate(cell.ours)} / {_estimate(cell.theirs)}"
        if math.isnan(cell.apart) or cell.apart == 0:
            return both
        return f"{both} ({_number(round(cell.apart, 1), '+')})"
    if isinstance(cell, Estimate):
        return _estimate(cell)
    if cell is None or isinstance(cell, str):
        return escaped(text(cell))
    return _number(cell)


def _estimate(estimate: Estimate) -> str:
    value = _number(estimate.value)
    if not estimate.error:
        return value
    return rf"{value} $\pm$ \num{{{estimate.error:.2g}}}"


def _number(value: float, sign: str = "") -> str:
    if not math.isfinite(value):
        return escaped(number(value))
    plus = "+" if sign and value > 0 else ""
    return rf"\num{{{plus}{number(value).replace(',', '')}}}"


def _row(cells: list[str]) -> str:
    return "  " + " & ".join(cells) + r" \\"
