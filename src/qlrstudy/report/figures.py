"""Charts as figures: SVG, written here, and PDF and PNG made of it.

Drawn by hand because a report has a hundred of them: a plotting library lays each out
anew for each format, which took nine tenths of the report's time.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import numpy as np

from qlrstudy.report.axes import view
from qlrstudy.report.charts import Axis, Chart, Series
from qlrstudy.report.scales import AxisScale
from qlrstudy.report.styles import MARKERS, Style

# In pixels.
_WIDTH, _HEIGHT, _TALL = 768, 168, 230
_LEFT, _RIGHT, _TOP, _BOTTOM, _TITLE = 62, 14, 12, 44, 26
_LEGEND_ROW = 18
_LETTER, _GAP = 6.5, 8
_MARK, _POINT = 3.2, 5.0
_MUTED = "#bbbbbb"
# Of pixels of a PNG to those of the figure.
_ENLARGED = 1.3


class _Frame(NamedTuple):
    """Where a panel lies."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


def save(chart: Chart, folder: Path, *, svg_alone: bool = False) -> list[Path]:
    """Write a chart as a figure, in each format.

    Args:
        chart: to be drawn.
        folder: where.
        svg_alone: leave out PDF and PNG, which take most of the time.

    Returns:
        The files.
    """
    text = svg(chart)
    path = folder / f"{chart.name}.svg"
    path.write_text(text, encoding="utf-8")
    if svg_alone:
        return [path]
    import vl_convert

    made = {
        "pdf": vl_convert.svg_to_pdf(text),
        "png": vl_convert.svg_to_png(text, scale=_ENLARGED),
    }
    paths = [path]
    for kind, content in made.items():
        paths.append(folder / f"{chart.name}.{kind}")
        paths[-1].write_bytes(content)
    return paths


def svg(chart: Chart) -> str:
    """A chart with a panel for each pair of its axes, and one legend."""
    across = [axis for axis in chart.x if axis.printed]
    shared = len(across) > 1  # the panels of a row then have one vertical axis
    if shared:
        rows = [[(x, y) for x in across] for y in chart.y]
    else:
        rows = [[(across[0], y) for y in chart.y]]
    inner = _TALL if len(rows) == 1 else _HEIGHT
    if chart.kind == "path":
        inner = 2 * _TALL
    height = _TITLE
    parts = [_text(_WIDTH / 2, 17, _shortened(chart.title, 110), size=13)]
    for row in rows:
        width = _WIDTH / len(row)
        for place, (x, y) in enumerate(row):
            left = place * width + _LEFT
            own = width - _LEFT - _RIGHT
            frame = _Frame(left, height + _TOP, own, inner)
            named = place == 0 or not shared
            parts += _panel(chart, x, y, frame, named)
        height += _TOP + inner + _BOTTOM
    entries = {(one.title, _look(one)): one.opacity for one in chart.series}
    if len(entries) > 1 or chart.kind != "sweep":
        columns = 4 if all(len(title) <= 21 for title, _ in entries) else 3
        parts += _legend(entries, columns, height)
        height += _LEGEND_ROW * math.ceil(len(entries) / columns) + 6
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-size="11" '
        'font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _panel(chart: Chart, x: Axis, y: Axis, frame: _Frame, named: bool) -> Iterator[str]:
    having = [one for one in chart.series if y.key in one.y]
    shown = view(chart, x, log=x.log), view(chart, y, log=y.log)
    if shown[0] is None or shown[1] is None:
        yield _text(frame.left + frame.width / 2, frame.top + 30, "nothing to draw")
        return
    across = AxisScale(shown[0], frame.left, frame.right)
    up = AxisScale(shown[1], frame.bottom, frame.top)
    yield from _axes(across, up, x, y, frame, named)
    clip = f"{chart.name}-{x.key}-{y.key}"
    yield (
        f'<clipPath id="{clip}"><rect x="{frame.left}" y="{frame.top}" '
        f'width="{frame.width}" height="{frame.height}"/></clipPath>'
        f'<g clip-path="url(#{clip})">'
    )
    for line in chart.background:
        places = np.stack([across(line[:, 0]), up(line[:, 1])], axis=1)
        yield f'<path d="{_line(places)}" fill="none" stroke="#bbb" stroke-width=".7"/>'
    cut: list[str] = []
    for one in reversed(having):
        yield from _series(chart, one, x.key, y.key, across, up, cut)
    yield "</g>"
    yield from cut


def _axes(
    across: AxisScale, up: AxisScale, x: Axis, y: Axis, frame: _Frame, named: bool
) -> Iterator[str]:
    left, right, top, bottom = frame.left, frame.right, frame.top, frame.bottom
    for value, text in _with_room(across.view.ticks, frame.width):
        at = f"{float(across(np.array(value))):.1f}"
        yield f'<path d="M{at},{top}V{bottom}" stroke="#e4e4e4" stroke-width=".8"/>'
        yield _text(float(at), bottom + 14, text)
    for value, text in up.view.ticks:
        at = float(up(np.array(value)))
        yield f'<path d="M{left},{at:.1f}H{right}" stroke="#e4e4e4" stroke-width=".8"/>'
        if named:
            yield _text(left - 6, at + 3.6, text, anchor="end")
    yield f'<path d="M{left},{top}V{bottom}H{right}" stroke="#444" fill="none"/>'
    yield _text((left + right) / 2, bottom + 31, x.label)
    if named:
        middle = (top + bottom) / 2
        turned = f'transform="rotate(-90 {left - 50} {middle})"'
        yield _text(left - 50, middle, y.label, more=turned)


def _with_room(
    ticks: Sequence[tuple[float, str]], width: float
) -> Sequence[tuple[float, str]]:
    """Every mark, or every second or third, so that their texts stay apart."""
    widest = max((len(text) for _, text in ticks), default=0) * _LETTER + _GAP
    return ticks[:: math.ceil(len(ticks) * widest / width) or 1]


def _series(
    chart: Chart,
    one: Series,
    x: str,
    y: str,
    across: AxisScale,
    up: AxisScale,
    cut: list[str],
) -> Iterator[str]:
    """A series inside the clipped part; `cut` gets the marks where it leaves it."""
    own, heights = _look(one), one.y[y]
    known = np.isfinite(one.x[x]) & np.isfinite(heights)
    if across.view.log:
        known &= one.x[x] > 0
    if not known.any():
        return
    spots = np.stack([across(one.x[x][known]), up(heights[known])], axis=1)
    fade = f' opacity="{one.opacity:.2f}"' if one.opacity < 1 else ""
    yield f"<g{fade}>"
    errors = one.error[y][known] if y in one.error else np.zeros(len(spots))
    low, high = (up(heights[known] + sign * errors) for sign in (-1, 1))
    if chart.kind == "curves" and errors.any() and not one.muted:
        edge = np.concatenate(
            [
                np.stack([spots[:, 0], high], axis=1),
                np.stack([spots[:, 0], low], axis=1)[::-1],
            ]
        )
        yield f'<path d="{_line(edge)}Z" fill="{own.colour}" fill-opacity=".18"/>'
    if chart.kind != "points":
        yield (
            f'<path d="{_line(spots, stairs=chart.kind == "stairs")}" fill="none" '
            f'stroke="{own.colour}" stroke-width="1.4"{_dash(own)}/>'
        )
    few = chart.kind in ("curves", "stairs", "path")
    places = np.flatnonzero(known)
    for number, (place, spot) in enumerate(zip(places.tolist(), spots, strict=True)):
        if few and place not in one.marks:
            continue
        if not few and errors[number]:
            ends = f"M{spot[0]:.1f},{low[number]:.1f}V{high[number]:.1f}"
            yield f'<path d="{ends}" stroke="{own.colour}"/>'
        yield _marker(own, spot[0], spot[1], _MARK if few else _POINT)
    yield "</g>"
    cut += _cut(own, spots, up.end, up.start)


def _look(one: Series) -> Style:
    return one.style._replace(colour=_MUTED) if one.muted else one.style


def _cut(own: Style, spots: np.ndarray, top: float, bottom: float) -> Iterator[str]:
    """A triangle at the edge wherever a series leaves the picture."""
    for beyond, edge, sign in (
        (spots[:, 1] < top - 0.5, top, 1),
        (spots[:, 1] > bottom + 0.5, bottom, -1),
    ):
        leaves = beyond & ~np.concatenate([[False], beyond[:-1]])
        for place in spots[leaves, 0]:
            corners = f"M{place:.1f},{edge - 7 * sign:.1f}l4.5,{7 * sign}h-9Z"
            yield f'<path class="cut" d="{corners}" fill="{own.colour}"/>'


def _legend(
    entries: dict[tuple[str, Style], float], columns: int, top: float
) -> Iterator[str]:
    width = _WIDTH / columns
    for number, ((title, own), opacity) in enumerate(entries.items()):
        left = 14 + number % columns * width
        at = top + _LEGEND_ROW * (number // columns) + 4
        fade = f' opacity="{opacity:.2f}"' if opacity < 1 else ""
        stroke = f'stroke="{own.colour}" stroke-width="1.6"{_dash(own)}'
        yield f'<g{fade}><path d="M{left},{at}h30" {stroke}/>'
        yield _marker(own, left + 15, at, _MARK) + "</g>"
        yield _text(left + 36, at + 3.8, _shortened(title, 32), anchor="start")


def _marker(own: Style, x: float, y: float, radius: float) -> str:
    place = f"translate({x:.1f} {y:.1f}) scale({radius})"
    return f'<path d="{MARKERS[own.marker]}" transform="{place}" fill="{own.colour}"/>'


def _dash(own: Style) -> str:
    return f' stroke-dasharray="{" ".join(map(str, own.dash))}"' if own.dash else ""


def _line(spots: np.ndarray, *, stairs: bool = False) -> str:
    pairs = [f"{x:.1f},{y:.1f}" for x, y in spots.tolist()]
    if not stairs:
        return "M" + " ".join(pairs)
    corners = [f"H{x:.1f}V{y:.1f}" for x, y in spots[1:].tolist()]
    return f"M{pairs[0]}" + "".join(corners)


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "middle",
    size: float = 11,
    more: str = "",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="#333" {more}>{escape(text)}</text>'
    )


def _shortened(text: str, most: int) -> str:
    """Text of a store, not too long and without what XML cannot hold."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"
