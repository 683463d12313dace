"""The paper's numbers beside ours: how far apart, and whether that is explained.

A result agrees if it lies within three combined errors of the paper's and ten runs or
more say so: fewer have so large an error that they would agree with anything, and are
undecided. Where it does not, `explanations.csv` may say why, with the heading in the
documentation that shows it. An explanation holds for differences of at most the share
`within` of the paper's value, and where `when` says `other batch`, for settings with
another batch than the paper's. Where it says `always`, the paper's own number is none,
whatever its error: nothing agrees with a gap of 1e28. Runs on a part of the data, or
for less than the paper's budget, stand beside the paper's numbers and are not judged.
"""

import csv
import functools
import importlib.resources
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from qlrstudy import paper
from qlrstudy.report.groups import Group, chosen_of_each
from qlrstudy.report.statistics import Estimate

AGREEMENT = 3.0
FEWEST_RUNS = 10
_CLOSE = 0.01  # of the paper's steps, whose two tables do not quite agree either
_TUNED_HERE = "docs/reproduction.md#tuned-here"
OTHER_BATCH = "other batch"
ALWAYS = "always"


class Study(NamedTuple):
    """One of the paper's tables of results.

    Attributes:
        name: of the paper's table.
        ours: the study of ours that does the same.
        title: in words.
        unit: of its budget.
        budgets: by the task's title.
        chosen_by: the loss that settings were tuned for.
    """

    name: str
    ours: str
    title: str
    unit: str
    budgets: dict
    chosen_by: str


STUDIES = (
    Study(
        "epoch_constrained",
        "epoch-constrained",
        "Epoch-constrained",
        "epochs",
        paper.EPOCHS,
        "validation_loss",
    ),
    Study(
        "runtime_constrained_validation",
        "runtime-validation",
        "Runtime-constrained, tuned for validation loss",
        "seconds",
        paper.SECONDS,
        "validation_loss",
    ),
    Study(
        "runtime_constrained_training",
        "runtime-training",
        "Runtime-constrained, tuned for training loss",
        "seconds",
        paper.SECONDS,
        "training_loss",
    ),
)


class Quantity(NamedTuple):
    """A column of the paper's tables, and the same of ours.

    Attributes:
        column: its name there.
        title: in words; ours says which training loss it is.
        ours: its name in a group's `finals`.
        judged: whether another machine should give the same.
    """

    column: str
    title: str
    ours: str
    judged: bool = True


QUANTITIES = (
    Quantity(
        "training_loss", "training loss (last minibatch)", "minibatch_training_loss"
    ),
    Quantity(
        "training_accuracy",
        "training accuracy (last minibatch)",
        "minibatch_training_accuracy",
    ),
    Quantity("test_loss", "test loss", "test_loss"),
    Quantity("test_accuracy", "test accuracy", "test_accuracy"),
    Quantity("generalisation_gap", "generalisation gap", "generalisation_gap"),
    Quantity("total_steps", "steps", "step"),
    Quantity("total_time_s", "training time (s)", "training_seconds", judged=False),
)


class Compared(NamedTuple):
    """One number of ours, the paper's if it has one, and how far they are apart."""

    ours: Estimate
    theirs: Estimate | None
    judged: bool = True

    @property
    def apart(self) -> float:
        """In units of the combined error; infinite where neither has an error."""
        if self.theirs is None or not self.judged:
            return math.nan
        distance = self.ours.value - self.theirs.value
        error = math.hypot(self.ours.error, self.theirs.error)
        if error:
            return distance / error
        return math.copysign(math.inf, distance) if distance else 0.0

    @property
    def relative(self) -> float:
        """The difference as a share of the paper's value."""
        if self.theirs is None or not self.theirs.value:
            return math.nan
        return (self.ours.value - self.theirs.value) / abs(self.theirs.value)


class Explanation(NamedTuple):
    """Why a result is not the paper's: in short, and where it is shown."""

    text: str
    link: str


class Comparison(NamedTuple):
    """A row of one of the paper's tables: our group, and each number beside theirs.

    `how` says what stands in for the paper's budget or data, if it is not those.
    """

    study: Study
    group: Group
    numbers: Mapping[Quantity, Compared]
    how: str = ""


class Verdict(NamedTuple):
    """A cell of the reproduction: what, how far, and how it is judged.

    `word` is `agrees`, `undecided` (close, but too few runs), `explained` or `differs`.
    """

    study: Study
    group: Group
    quantity: Quantity
    compared: Compared
    word: str
    explanation: Explanation | None


def comparisons(found: Sequence[Group]) -> list[Comparison]:
    """Every group that one of the paper's tables speaks of."""
    return [
        Comparison(study, own.group, _numbers(own, study), own.how)
        for study in STUDIES
        for own in _study_groups(found, study)
    ]


def verdicts(compared: Sequence[Comparison]) -> Iterator[Verdict]:
    """Every number that both the paper and the store have."""
    for study, group, numbers, _ in compared:
        for quantity, both in numbers.items():
            if both.judged and math.isfinite(both.ours.value) and both.theirs:
                yield _judged(study, group, quantity, both)


class _Match(NamedTuple):
    """A group that stands for a row of the paper's: how well, and how, in words.

    Of several the one with the least rank does: on all data, then by its budget.
    """

    rank: tuple[bool, float]
    group: Group
    how: str
    judged: bool


def _study_groups(found: Sequence[Group], study: Study) -> Iterator[_Match]:
    """For each of a table's rows the group nearest to it, where there is one."""
    best: dict[tuple[str, str], _Match] = {}
    for place in dict.fromkeys(group.place for group in found):
        if place.scale != "paper" or not all(map(_is_partial, place.caveats)):
            continue
        here = [group for group in found if group.place == place]
        for group in chosen_of_each(here, study.chosen_by, study.ours):
            match = _on_its_data(_match(group, study))
            key = (place.task, group.algorithm)
            if match and (key not in best or match.rank < best[key].rank):
                best[key] = match
    yield from best.values()


def _is_partial(caveat: str) -> bool:
    """Whether all that a run lacks is data."""
    return caveat.startswith("partial data")


def _on_its_data(match: _Match | None) -> _Match | None:
    """A match that says whether it is on all of the data; on a part, none is judged."""
    if match is None or not match.group.place.caveats:
        return match
    how = ", ".join(filter(None, ("partial data", match.how)))
    return _Match((True, match.rank[1]), match.group, how, False)


def _match(group: Group, study: Study) -> _Match | None:
    """By the paper's budget, or less of it; in place of its time also by its steps.

    Another machine takes other steps in the paper's time, so that its steps are the
    better comparison; less than the paper's is shown beside it, and not judged.
    """
    budget, theirs = group.place.budget, study.budgets.get(group.runs[0].titles[0])
    if theirs is None:
        return None
    if (budget.unit, budget.amount) == (study.unit, theirs):
        return _Match((False, 0), group, "", True)
    if (study.unit, budget.unit) == ("seconds", "steps"):
        steps = paper.result(*titled(group), study.name).get("total_steps")
        close = steps and abs(budget.amount / steps - 1) < _CLOSE
        how = "at the paper's steps"
        return _Match((False, 1), group, how, True) if close else None
    if budget.unit == study.unit and budget.amount < theirs:
        how = f"{budget} in place of {theirs:g}"
        return _Match((False, 2 + theirs / budget.amount), group, how, False)
    return None


def _numbers(own: _Match, study: Study) -> dict[Quantity, Compared]:
    group = own.group
    row = paper.result(*titled(group), study.name)
    numbers = {}
    for quantity in QUANTITIES:
        theirs = None
        if quantity.column in row:
            error = row.get(f"{quantity.column}_error", 0.0)
            theirs = Estimate(row[quantity.column], error)
        ours = group.finals[quantity.ours]
        numbers[quantity] = Compared(ours, theirs, quantity.judged and own.judged)
    return numbers


class Named(NamedTuple):
    """A task or an algorithm, as the paper's tables know it."""

    name: str
    title: str


def titled(group: Group) -> tuple[Named, Named]:
    """The task and the algorithm of a group."""
    task, algorithm = group.runs[0].titles
    return Named(group.place.task, task), Named(group.algorithm, algorithm)


def _judged(study: Study, group: Group, quantity: Quantity, both: Compared) -> Verdict:
    close = abs(both.apart) <= AGREEMENT
    why = _explanation(study, group, quantity, both, close=close)
    word = "explained" if why else "differs"
    if close and not why:
        word = "agrees" if len(group.runs) >= FEWEST_RUNS else "undecided"
    return Verdict(study, group, quantity, both, word, why)


def _explanation(
    study: Study, group: Group, quantity: Quantity, both: Compared, *, close: bool
) -> Explanation | None:
    share = abs(both.relative)
    for row in explanations():
        fits = (
            row["study"] == study.name
            and row["quantity"] == quantity.column
            and row["task"] in ("*", group.place.task)
            and row["algorithm"] in ("*", group.algorithm)
            and (row["when"] == ALWAYS or not close)
            and (row["when"] != OTHER_BATCH or _batches(group) is not None)
            and share <= float(row["within"] or math.inf)
        )
        if fits:
            return Explanation(row["explanation"], row["link"])
    if close or quantity.ours != "step":
        return None
    return _other_steps(group, both)


class _Batches(NamedTuple):
    """Sizes of a batch: ours, and another of the paper's."""

    ours: float
    theirs: float


def _batches(group: Group) -> _Batches | None:
    """Where another batch was chosen than in the paper."""
    try:
        theirs = paper.hyperparameters(*titled(group)).get("batch_size")
    except ValueError:
        return None
    own = dict(group.setting).get("batch_size")
    return None if not theirs or own in (None, theirs) else _Batches(own, theirs)


def _other_steps(group: Group, both: Compared) -> Explanation | None:
    """Where each has the steps of its own batch over the same epochs."""
    assert both.theirs is not None
    budget, examples = group.place.budget, group.runs[0].examples
    batches = _batches(group)
    if budget.unit != "epochs" or not examples or batches is None:
        return None
    steps = (both.ours.value, both.theirs.value)
    for taken, size in zip(steps, batches, strict=True):
        # What is left over at the end of an epoch is a batch, or is left out.
        fewest, most = max(1, examples // size), math.ceil(examples / size)
        if not fewest <= taken / budget.amount <= most:
            return None
    own, theirs = batches
    text = f"another batch was chosen: {own:g} examples, in the paper {theirs:g}"
    return Explanation(text, _TUNED_HERE)


@functools.cache
def explanations() -> list[dict[str, str]]:
    """The rows of `explanations.csv`; `*` is for any task or algorithm."""
    file = importlib.resources.files("qlrstudy.report") / "explanations.csv"
    return list(csv.DictReader(file.read_text().splitlines()))
