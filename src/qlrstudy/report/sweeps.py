"""Sensitivity: groups of one algorithm in one place that differ in one setting.

Nothing says that a sweep was meant: it is recognised by what was run. Random search
makes none, for there everything differs at once.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from qlrstudy.report.groups import Group, Place, by_algorithm, chosen

# So few points make no trend.
_FEWEST = 3
# The paper moves both factors of the damping as one, the one the other's inverse.
_TIED = ("damping_decrease", "damping_increase")


class Line(NamedTuple):
    """A sweep with all else fixed.

    Attributes:
        shape: of a batch, as words; empty where the batch is what is swept.
        values: of the setting, rising.
        groups: one for each value.
    """

    shape: str
    values: tuple[float, ...]
    groups: tuple[Group, ...]


class Sweep(NamedTuple):
    """How one algorithm depends on one setting, for one batch or several."""

    place: Place
    algorithm: str
    setting: str
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """Of the algorithm."""
        return self.lines[0].groups[0].title


def sweeps(found: Sequence[Group]) -> list[Sweep]:
    """All sweeps there are, in the groups' order."""
    made = []
    for place in dict.fromkeys(group.place for group in found):
        here = [group for group in found if group.place == place]
        for algorithm, same in by_algorithm(here).items():
            names = dict.fromkeys(k for group in same for k in _settings(group))
            for name in names:
                lines = _lines(same, name)
                if lines:
                    made.append(Sweep(place, algorithm, name, lines))
    return made


def _settings(group: Group) -> Mapping[str, object]:
    """By name; factors of the damping that are each other's inverse count as one."""
    settings = dict(group.setting)
    decrease, increase = (settings.get(name) for name in _TIED)
    if decrease and increase and abs(decrease * increase - 1) < 1e-3:
        return settings | {"damping_decrease": "1 / damping_increase"}
    return settings


def _lines(same: Sequence[Group], name: str) -> tuple[Line, ...]:
    """Groups that agree in all but this setting, those with more than a few values."""
    fixed: dict[frozenset, dict[float, Group]] = defaultdict(dict)
    for group in same:
        settings = dict(_settings(group))
        value = settings.pop(name, None)
        if isinstance(value, int | float):
            fixed[frozenset(settings.items())][value] = group
    long = {rest: line for rest, line in fixed.items() if len(line) >= _FEWEST}
    if name == "batch_size":
        # A grid over the batch and a setting is drawn along the setting; along the
        # batch, only what was chosen. What is no grid may start elsewhere.
        best = chosen(same)
        through = {k: v for k, v in long.items() if best in v.values()}
        long = through or (long if len(long) == 1 else {})
    lines = [_line(points, name) for points in long.values()]
    best_first = sorted(lines, key=lambda line: (-len(line.values), line.shape))
    rest = {_others(line, name) for line in best_first[:1]}
    return tuple(
        sorted(
            (line for line in best_first if _others(line, name) in rest),
            key=lambda line: line.groups[0].shape,
        )
    )


def _line(points: Mapping[float, Group], name: str) -> Line:
    values = sorted(points)
    groups = tuple(points[value] for value in values)
    shape = ", ".join(f"{v:g}" for k, v in groups[0].shape if k != name)
    return Line(f"batch {shape}" if shape else "", tuple(values), groups)


def _others(line: Line, name: str) -> frozenset:
    """What is fixed besides the batch's shape."""
    settings = dict(_settings(line.groups[0]))
    shape = {k for k, _ in line.groups[0].shape}
    return frozenset(
        (k, v) for k, v in settings.items() if k != name and k not in shape
    )
