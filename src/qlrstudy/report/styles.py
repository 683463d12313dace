"""One title, colour, dash and marker for each algorithm, in every figure and the page.

Colours are after Okabe and Ito, which colour-blind people can tell apart, without their
yellow and with the light ones darkened, so that each stands out on a white and on a
dark page; Adam, which all are compared with, has the colour of the text. Where a family
shares one, dash and marker tell its members apart, in grey too. A name that is not
listed gets a style from its own letters, so that it is the same in each report.
"""

import hashlib
import math
from collections.abc import Iterable
from typing import NamedTuple

BLUE, SKY, GREEN, ORANGE = "#0072B2", "#2E9BD6", "#009E73", "#C78500"
VERMILLION, PURPLE, GREY, OLIVE = "#D55E00", "#CC79A7", "#808080", "#949430"
# Black on paper, the text's colour on the page.
INK = "currentColor"
_COLOURS = (BLUE, SKY, GREEN, ORANGE, VERMILLION, PURPLE, GREY, OLIVE)

# In pixels: solid, dashed, dotted, mixed.
_SOLID: tuple[float, ...] = ()
_DASHED, _DOTTED, _MIXED = (6.0, 2.5), (1.5, 2.0), (7.0, 2.0, 1.5, 2.0)
_DASHES = (_SOLID, _DASHED, _DOTTED, _MIXED)


def _outline(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.3g},{y:.3g}" for x, y in points) + "Z"


def _corners(radii: tuple[float, ...], turn: float) -> str:
    """A closed line whose corners lie at these distances, evenly around."""
    angles = [math.radians(turn) + math.tau * i / len(radii) for i in range(len(radii))]
    pairs = zip(radii, angles, strict=True)
    return _outline((r * math.sin(a), -r * math.cos(a)) for r, a in pairs)


def _cross(turn: float) -> str:
    """Two bars: three corners for each arm's end, and one between the arms."""
    near, far = 0.42 * math.sqrt(2), math.hypot(1, 0.42)
    half = math.degrees(math.atan(0.42))
    angles = [turn + 90 * arm + a for arm in range(4) for a in (-half, half, 45)]
    radii = [far, far, near] * 4
    pairs = zip(radii, map(math.radians, angles), strict=True)
    return _outline((r * math.sin(a), -r * math.cos(a)) for r, a in pairs)


# Shapes of a marker by name, as SVG paths about the origin, of radius 1 or so.
MARKERS = {
    "o": "M-1,0a1,1 0 1,0 2,0a1,1 0 1,0 -2,0Z",
    "s": _corners((1.15,) * 4, 45),
    "^": _corners((1.25,) * 3, 0),
    "v": _corners((1.25,) * 3, 180),
    "D": _corners((1.2,) * 4, 0),
    "P": _cross(0),
    "X": _cross(45),
    "*": _corners((1.35, 0.6) * 5, 0),
    "<": _corners((1.25,) * 3, 270),
    ">": _corners((1.25,) * 3, 90),
    "p": _corners((1.15,) * 5, 0),
    "h": _corners((1.15,) * 6, 0),
}


class Style(NamedTuple):
    """How an algorithm looks.

    Attributes:
        title: where the store has none.
        colour: as `#rrggbb`, or `INK`.
        dash: lengths of strokes and gaps; none for a solid line.
        marker: one of `MARKERS`.
    """

    title: str
    colour: str
    dash: tuple[float, ...]
    marker: str


# In the order of tables and legends.
ALGORITHMS = {
    "sgd-minimal": Style("SGD Minimal", GREY, _SOLID, "P"),
    "sgd-full": Style("SGD Full", GREY, _DASHED, "X"),
    "adam": Style("Adam", INK, _SOLID, "s"),
    "adam-untuned": Style("Adam (Untuned)", SKY, _DASHED, "s"),
    "adam-tuned-epsilon": Style("Adam (Tuned ε)", BLUE, _DOTTED, "D"),
    "adam-average": Style("Adam (average)", BLUE, _SOLID, "s"),
    "kfac": Style("K-FAC", GREEN, _SOLID, "^"),
    "kfac-untuned": Style("K-FAC (Untuned)", GREEN, _DASHED, "v"),
    "kfac-unadaptive": Style("K-FAC (Unadaptive)", GREEN, _DOTTED, "<"),
    "baydin-sgd": Style("Baydin SGD", GREY, _MIXED, ">"),
    "adamqlr-tuned": Style("AdamQLR-paper, tuned", VERMILLION, _SOLID, "o"),
    "adamqlr-untuned": Style("AdamQLR-paper, untuned", ORANGE, _DASHED, "o"),
    "adamqlr-hessian": Style("AdamQLR-paper, Hessian", PURPLE, _DOTTED, "h"),
    "adamqlr-undamped": Style("AdamQLR-paper, undamped", PURPLE, _MIXED, "p"),
    "sgdqlr": Style("SGD-QLR", VERMILLION, _DOTTED, "D"),
    "adamqlr": Style("AdamQLR", VERMILLION, _MIXED, "*"),
    "adamqlr-quarter": Style("AdamQLR (quarter probe)", ORANGE, _DOTTED, "P"),
    "adamw-cosine": Style("AdamW (cosine)", BLUE, _MIXED, "X"),
    "prodigy": Style("Prodigy", OLIVE, _SOLID, "D"),
    "prodigy-cosine": Style("Prodigy (cosine)", GREEN, _MIXED, "D"),
    "prodigy-average": Style("Prodigy (average)", GREEN, _SOLID, "D"),
    "dadapt-adam": Style("D-Adaptation (Adam)", OLIVE, _DASHED, "^"),
    "schedule-free-adam": Style("Schedule-free Adam", SKY, _SOLID, "v"),
    "schedule-free-average": Style("Schedule-free Adam (average)", BLUE, _DASHED, "v"),
    "momo-adam": Style("MoMo-Adam", SKY, _DOTTED, "p"),
    "dog": Style("DoG", OLIVE, _DOTTED, "<"),
    "dowg": Style("DoWG", OLIVE, _MIXED, ">"),
    "mechanic-adam": Style("Mechanic (Adam)", SKY, _MIXED, "h"),
    "polyak-sgd": Style("Polyak SGD", GREY, _DOTTED, "*"),
    "muon": Style("Muon", PURPLE, _SOLID, "P"),
    "sophia": Style("Sophia", PURPLE, _DASHED, "o"),
}

# Their schedules end with the run: an advantage over all that can stop at any time.
KNOW_THE_END = frozenset({"adamw-cosine", "prodigy-cosine"})

_TASKS = {
    "rosenbrock": "Rosenbrock",
    "diabetes": "Diabetes",
    "digits": "Digits",
    "uci-energy": "UCI Energy",
    "uci-protein": "UCI Protein",
    "fashion-mnist": "Fashion-MNIST",
    "svhn": "SVHN",
    "cifar-10": "CIFAR-10",
    "penn-treebank": "Penn Treebank",
    "penn-treebank-characters": "Penn Treebank (characters)",
    "breast-cancer": "Breast cancer",
    "wine": "Wine",
    "uci-protein-area": "UCI Protein (area)",
    "svhn-grey": "SVHN (grey)",
    "python-manual": "Python manual",
    "python-manual-characters": "Python manual (characters)",
}


def style(algorithm: str) -> Style:
    """How to draw an algorithm, known here or not."""
    if algorithm in ALGORITHMS:
        return ALGORITHMS[algorithm]
    digits = hashlib.sha256(algorithm.encode(errors="replace")).digest()
    return Style(
        algorithm,
        _COLOURS[digits[0] % len(_COLOURS)],
        _DASHES[digits[1] % len(_DASHES)],
        list(MARKERS)[digits[2] % len(MARKERS)],
    )


def algorithm_title(name: str, stored: str) -> str:
    """What to call an algorithm; a store's own word is for those not known here."""
    return ALGORITHMS[name].title if name in ALGORITHMS else stored


def task_title(name: str) -> str:
    """What to call a task where a store does not say."""
    return _TASKS.get(name, name)


def algorithm_order(name: str) -> tuple[int, str]:
    """The paper's algorithms first, in its order; then all others by name."""
    return _place(list(ALGORITHMS), name)


def task_order(name: str) -> tuple[int, str]:
    """Likewise for tasks."""
    return _place(list(_TASKS), name)


def _place(known: list[str], name: str) -> tuple[int, str]:
    return (known.index(name) if name in known else len(known), name)
