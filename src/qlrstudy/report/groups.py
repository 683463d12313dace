"""Runs that differ in nothing but their seed, and what is compared with what.

A *group* is one algorithm with one setting on one task: all its seeds. A *section* of
the report holds, for one task, scale and budget, the chosen group of each algorithm:
the one that a study chose; without studies, the one with most runs (a setting that was
chosen is repeated), or, of several, the one with the lowest final validation loss.
"""

import dataclasses
import math
import re
import shlex
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from qlrstudy.report.load import StoredRun
from qlrstudy.report.statistics import Estimate, finals
from qlrstudy.report.styles import algorithm_order, task_order
from qlrstudy.spec import Budget

_SHAPE = ("batch_size", "sequence_length")


_LONGEST = 120  # letters of a name of a file
_PLAIN = "[A-Za-z0-9 ._-]*"


class Place(NamedTuple):
    """Where runs can be compared: same task, scale, budget and data."""

    task: str
    scale: str
    budget: Budget
    caveats: tuple[str, ...]


Setting = tuple[tuple[str, float], ...]
Shape = Setting


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """One algorithm with one setting in one place.

    Args:
        place: where.
        algorithm: its name.
        setting: hyperparameters by name, the batch's shape among them.
        runs: those that ended by themselves.
        unfinished: how many others there are.
        finals: what the runs ended with, by quantity (`statistics.finals`).
    """

    place: Place
    algorithm: str
    setting: Setting
    runs: tuple[StoredRun, ...]
    unfinished: int
    finals: Mapping[str, Estimate]

    @property
    def title(self) -> str:
        """Of the algorithm."""
        return self.runs[0].titles[1]

    @property
    def diverged(self) -> int:
        """How many of the runs."""
        return sum(run.status == "diverged" for run in self.runs)

    @property
    def shape(self) -> Shape:
        """Of a batch."""
        return tuple(pair for pair in self.setting if pair[0] in _SHAPE)


class Section(NamedTuple):
    """What one part of the report compares.

    Attributes:
        place: where.
        shape: of a batch, where all algorithms have the same; `None` where each has
            its own choice.
        groups: the chosen ones, in the order of tables and legends.
        study: whose choices these are, where several are of the same place.
    """

    place: Place
    shape: Shape | None
    groups: tuple[Group, ...]
    study: str | None = None

    @property
    def task_title(self) -> str:
        """Of the task."""
        return self.groups[0].runs[0].titles[0]

    @property
    def title(self) -> str:
        """Of the section."""
        scale = scale_words(self.place.scale)
        shape = [shape_words(self.common_shape)] if self.common_shape else []
        study = [self.study] if self.study else []
        words = [self.task_title, str(self.place.budget), *scale, *shape, *study]
        return ", ".join(words)

    @property
    def common_shape(self) -> Shape | None:
        """Of a batch, where all groups have the same, chosen or not."""
        shapes = {group.shape for group in self.groups}
        return shapes.pop() if len(shapes) == 1 else None

    @property
    def key(self) -> str:
        """A name for files: letters, digits and dashes."""
        shape = [f"{k}-{v:g}" for k, v in self.shape or ()]
        caveats = ["partial"] if any("partial" in c for c in self.place.caveats) else []
        study = [self.study] if self.study else []
        words = [self.place.task, self.place.scale, str(self.place.budget)]
        return file_name(*words, *shape, *caveats, *study)


def groups(runs: Iterable[StoredRun]) -> list[Group]:
    """All groups with at least one run that ended by itself."""
    found: dict[tuple[Place, str, Setting], list[StoredRun]] = defaultdict(list)
    for run in runs:
        place = Place(run.task, run.scale, run.budget, run.caveats)
        setting = tuple(sorted(run.hyperparameters.items()))
        found[place, run.algorithm, setting].append(run)
    grouped = [_group(*key, members) for key, members in found.items()]
    return sorted((group for group in grouped if group), key=_order)


def sections(found: Sequence[Group]) -> list[Section]:
    """One for each place, and one for each batch shape that was compared there."""
    made = []
    for place in _places(found):
        here = [group for group in found if group.place == place]
        best = [
            Section(place, None, chosen_of_each(here, study=study), study)
            for study in _studies(place, here) or [None]
        ]
        made += best
        shown = {group for section in best for group in section.groups}
        # Trials of a search are runs too, but nobody set out to compare them.
        most = max(len(group.runs) for group in here)
        repeated = [group for group in here if 2 * len(group.runs) >= most]
        for shape in sorted({group.shape for group in repeated}):
            same = [group for group in repeated if group.shape == shape]
            own = chosen_of_each(same)
            if len(own) > 1 and not set(own) <= shown:
                made.append(Section(place, shape, own))
    return made


def chosen_of_each(
    found: Iterable[Group], by: str = "validation_loss", study: str | None = None
) -> tuple[Group, ...]:
    """The chosen group of each algorithm."""
    return tuple(chosen(same, by, study) for same in by_algorithm(found).values())


def chosen(
    candidates: Sequence[Group], by: str = "validation_loss", study: str | None = None
) -> Group:
    """The setting that the study chose, or any study; with most runs; with least loss.

    Args:
        candidates: of one algorithm in one place.
        by: the loss, at the end.
        study: its name; none will do.
    """

    def rank(group: Group) -> tuple[bool, bool, int, float]:
        studies = frozenset[str]().union(*[run.studies for run in group.runs])
        loss = final_loss(group, by)
        return study not in studies, not studies, -len(group.runs), loss

    return min(candidates, key=rank)


def by_algorithm(found: Iterable[Group]) -> dict[str, list[Group]]:
    """The groups of each algorithm, in the order of tables and legends."""
    ordered: Mapping[str, list[Group]] = defaultdict(list)
    for group in sorted(found, key=_order):
        ordered[group.algorithm].append(group)
    return dict(ordered)


def command(group: Group) -> str:
    """The command that does these runs again."""
    place = group.place
    words = ["qlrstudy run", shlex.quote(place.task), shlex.quote(group.algorithm)]
    words += [f"--scale {shlex.quote(place.scale)}"] if place.scale != "paper" else []
    words += [f"--{place.budget.unit} {_number(place.budget.amount)}"]
    words += [
        f"--batch-size {_number(v)}" for k, v in group.setting if k == "batch_size"
    ]
    rest = [f"{k}={_number(v)}" for k, v in group.setting if k != "batch_size"]
    words += ["--set " + " ".join(map(shlex.quote, rest))] if rest else []
    words += ["--partial-data"] if any("partial" in c for c in place.caveats) else []
    seeds = sorted(run.seed for run in group.runs)
    if len(seeds) == 1:
        return " ".join([*words, f"--seed {seeds[0]}"])
    loop = " ".join(map(str, seeds))
    return f'for seed in {loop}; do {" ".join(words)} --seed "$seed"; done'


def scale_words(scale: str) -> list[str]:
    """What is to be said of a task's scale, if anything."""
    if scale == "paper":
        return []
    return ["from the paper's start" if scale == "shown" else f"{scale} scale"]


def shape_words(shape: Shape) -> str:
    """A batch's shape: its size, and the length of its sequences."""
    return "batch " + " x ".join(f"{value:g}" for _, value in shape)


def file_name(*words: str) -> str:
    """A name that any file can have: letters, digits and dashes, not too many.

    Where that leaves out what tells two names apart, a checksum does.
    """
    text = "-".join(words)
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in text)
    plain = re.fullmatch("[A-Za-z0-9-]*", words[0]) and re.fullmatch(_PLAIN, text)
    if plain and len(name) <= _LONGEST:
        return name
    checksum = zlib.crc32(text.encode(errors="backslashreplace"))
    return f"{name[: _LONGEST - 9]}-{checksum:08x}"


def final_loss(group: Group, quantity: str) -> float:
    """What its runs ended with, infinite where none has it."""
    loss = group.finals[quantity].value
    return loss if math.isfinite(loss) else math.inf


def _group(
    place: Place, algorithm: str, setting: Setting, members: Sequence[StoredRun]
) -> Group | None:
    complete = sorted((r for r in members if r.complete), key=lambda run: run.seed)
    if not complete:
        return None
    unfinished = len(members) - len(complete)
    ends = finals(complete)
    return Group(place, algorithm, setting, tuple(complete), unfinished, ends)


def _order(group: Group) -> tuple:
    place = group.place
    where = (*task_order(place.task), place.scale, place.budget, place.caveats)
    return (*where, algorithm_order(group.algorithm), group.setting)


def _studies(place: Place, here: Sequence[Group]) -> list[str]:
    """Those that are to be shown apart, though they are of the same place.

    The paper gives each run the same time in two studies, tuned for different losses.
    """
    if place.budget.unit != "seconds":
        return []
    return sorted(
        {name for group in here for run in group.runs for name in run.studies}
    )


def _places(found: Sequence[Group]) -> Iterator[Place]:
    yield from dict.fromkeys(group.place for group in found)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
