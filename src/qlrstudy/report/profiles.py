r"""Performance profiles against a tuned Adam, over all cells that a store has.

A cell is a task at a scale, with a batch shape and a budget, in which Adam was run with
at least three learning rates. The tuned Adam of a cell is the rate with the lowest
final validation loss (medians over seeds). Its target is the median of the best
validation losses of its runs after the first step and within the first three quarters
of the budget; where nothing was evaluated there, no method reaches one. A method
needs so many steps to it as the median of its runs at their first evaluation at or
below it, infinite for a run that never gets there; its time is these steps times the
cost of one, where its runs were disturbed least. With $r$ that time over the fastest
method's, the profile of a method is the share of cells with $r \le \tau$.

References:
    Dahl et al., *Benchmarking Neural Network Training Algorithms*, 2023, section 4.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from qlrstudy.report.groups import (
    Group,
    Place,
    Shape,
    by_algorithm,
    chosen,
    final_loss,
    scale_words,
    shape_words,
)
from qlrstudy.report.load import StoredRun

TUNED = "adam"
SCHEDULED = "adamw-cosine"
LARGEST_RATIO = 4.0
FEWEST_RATES = 3
_PART_OF_BUDGET = 0.75
_UNDISTURBED = 0.1
LEAST_LOSS = float(np.finfo(np.float32).eps)


class Method(NamedTuple):
    """What one algorithm did in a cell.

    Attributes:
        group: its chosen setting there.
        steps, seconds: to the target; infinite where it was not reached.
        training_ratio, test_ratio: final losses over the tuned Adam's.
        hardest_ratio: final training loss over that of the rate that trains best.
        cost: of a step, over the tuned Adam's.
        stopped: its chosen setting if each run is read where its validation loss was
            least.
        settings: how many it was chosen from.
    """

    group: Group
    steps: float
    seconds: float
    training_ratio: float
    test_ratio: float
    hardest_ratio: float
    cost: float
    stopped: Group
    settings: int


class Cell(NamedTuple):
    """One comparison against a tuned Adam, and its methods by algorithm.

    `unseen` says whether nothing was chosen on it.
    """

    place: Place
    shape: Shape
    target: float
    methods: Mapping[str, Method]
    unseen: bool = False

    @property
    def title(self) -> str:
        """In words."""
        task = next(iter(self.methods.values())).group.runs[0].titles[0]
        where = [task, *scale_words(self.place.scale), str(self.place.budget)]
        return ", ".join([*where, shape_words(self.shape)])


def cells(found: Sequence[Group]) -> list[Cell]:
    """The cells of a store; none unless Adam was run with several learning rates."""
    made = []
    for where in dict.fromkeys((group.place, group.shape) for group in found):
        here = [group for group in found if (group.place, group.shape) == where]
        algorithms = by_algorithm(here)
        rates = algorithms.get(TUNED, [])
        if len({dict(group.setting).get("learning_rate") for group in rates}) >= (
            FEWEST_RATES
        ):
            adam = min(rates, key=lambda g: final_loss(g, "validation_loss"))
            hardest = min(rates, key=lambda g: final_loss(g, "training_loss"))
            made.append(_cell(*where, adam, hardest, algorithms))
    return made


def ratios(found: Sequence[Cell], unit: str) -> dict[str, list[float]]:
    """Time to target over the fastest method's, a number for each cell it was run in.

    Args:
        found: the cells.
        unit: `steps` or `seconds`.
    """
    made: dict[str, list[float]] = {}
    for cell in found:
        times = {name: getattr(m, unit) for name, m in cell.methods.items()}
        fastest = min(times.values())
        for name, time in times.items():
            ratio = time / fastest if math.isfinite(time) else math.inf
            made.setdefault(name, []).append(ratio)
    return made


def profile(own: Sequence[float], ratio: float) -> float:
    """The share of cells solved within so many times the fastest method's time."""
    return float(np.mean([value <= ratio for value in own]))


def area(own: Sequence[float]) -> float:
    r"""Area under the profile with $\log\tau$ from 0 to $\log 4$, of at most one."""
    whole = math.log(LARGEST_RATIO)
    parts = [max(0.0, whole - math.log(value)) / whole for value in own]
    return float(np.mean(parts))


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios; not a number where one is not finite or not positive."""
    if not values or not all(0 < value < math.inf for value in values):
        return math.nan
    return math.exp(sum(map(math.log, values)) / len(values))


def _cell(
    place: Place,
    shape: Shape,
    adam: Group,
    hardest: Group,
    algorithms: Mapping[str, list[Group]],
) -> Cell:
    target = float(np.median([_best_early(run) for run in adam.runs]))
    picked = {
        name: adam if name == TUNED else chosen(same)
        for name, same in algorithms.items()
    }
    if SCHEDULED in algorithms:  # the other bar, whose rate is chosen as Adam's is
        picked[SCHEDULED] = min(
            algorithms[SCHEDULED], key=lambda g: final_loss(g, "validation_loss")
        )
    methods = {
        name: Method(
            group,
            steps=_to_target(group, target),
            seconds=_to_target(group, target) * _cost(group),
            training_ratio=_ratio(group, adam, "training_loss"),
            test_ratio=_ratio(group, adam, "test_loss"),
            hardest_ratio=_ratio(group, hardest, "training_loss"),
            cost=_cost(group) / _cost(adam),
            stopped=min(algorithms[name], key=least_validation_loss),
            settings=len(algorithms[name]),
        )
        for name, group in picked.items()
    }
    runs = [run for same in algorithms.values() for group in same for run in group.runs]
    return Cell(place, shape, target, methods, any(run.unseen for run in runs))


def least_validation_loss(group: Group) -> float:
    """The median of its runs' least validation losses."""
    least = [np.nanmin(run.records["validation_loss"]) for run in group.runs]
    return float(np.median(least))


def _best_early(run: StoredRun) -> float:
    """The best validation loss in the first part of the budget, the start apart."""
    axis = {"epochs": "epoch", "steps": "step", "seconds": "training_seconds"}
    done = run.records[axis[run.budget.unit]] / run.budget.amount
    early = (done > 0) & (done <= _PART_OF_BUDGET)
    losses = run.records["validation_loss"][early]
    return float(np.min(losses[np.isfinite(losses)], initial=math.inf))


def _to_target(group: Group, target: float) -> float:
    """Steps to it; infinite, for all methods, where the tuned Adam set none."""

    def of(run: StoredRun) -> float:
        steps, losses = (run.records[name] for name in ("step", "validation_loss"))
        reached = steps[(steps > 0) & (losses <= target) & math.isfinite(target)]
        return float(reached[0]) if len(reached) else math.inf

    return float(np.median([of(run) for run in group.runs]))


def _ratio(group: Group, adam: Group, quantity: str) -> float:
    ours, theirs = (final_loss(g, quantity) for g in (group, adam))
    # Single precision cannot tell lower losses from zero, nor from one another.
    return max(ours, LEAST_LOSS) / max(theirs, LEAST_LOSS)


def _cost(group: Group) -> float:
    """Seconds of a step, where whatever else the machine did shows least.

    Of all stretches from one evaluation to the next, in all runs, the one that a tenth
    are faster than: another load only adds, and the very least may be a clock's error.
    """
    stretches = np.concatenate(
        [
            np.diff(run.records["training_seconds"]) / np.diff(run.records["step"])
            for run in group.runs
        ]
    )
    return float(np.quantile(stretches, _UNDISTURBED)) if len(stretches) else math.inf
