r"""Final test losses over those of two bars, each tuned in every cell by itself.

The bars are Adam with a constant learning rate and AdamW with a warm-up and a cosine,
where each was run with at least three rates. A method's ratio in a cell is that of
median test losses over seeds, and what is told is the geometric mean over cells, a
ratio above 100 counted as 100. Losses are read at the end of a run, or where its own
validation loss was least; each way the setting of a method that has several is the one
with the least validation loss so read. Intervals are of bootstrap samples over cells
and, within each, over the runs of both; which setting was chosen is not drawn again.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from qlrstudy.report.groups import Group
from qlrstudy.report.load import StoredRun
from qlrstudy.report.profiles import (
    FEWEST_RATES,
    LEAST_LOSS,
    SCHEDULED,
    TUNED,
    Cell,
    Method,
)
from qlrstudy.report.statistics import last_finite

SAMPLES = 1000
INTERVAL = (2.5, 97.5)
LARGEST = math.log(100.0)  # of a ratio's logarithm


class Ratio(NamedTuple):
    """Over a bar: the mean over cells, its 95 % interval, the median and worst cell.

    `cells` are those that have both the method and the bar.
    """

    cells: int
    value: float
    low: float
    high: float
    median: float
    worst: float


class Standing(NamedTuple):
    """One method over some cells, over each bar; `None` where no cell has both.

    Attributes:
        algorithm: its name.
        title: in words.
        settings: how many its setting was chosen from, in the cell with most.
        cells: it was run in.
        constant, scheduled: at the end of the run, over the two bars.
        stopped_constant, stopped_scheduled: where the validation loss was least.
        diverged, runs: of the chosen settings.
    """

    algorithm: str
    title: str
    settings: int
    cells: int
    constant: Ratio | None
    scheduled: Ratio | None
    stopped_constant: Ratio | None
    stopped_scheduled: Ratio | None
    diverged: int
    runs: int


def standings(cells: Sequence[Cell]) -> list[Standing]:
    """All methods of some cells, the least loss over the constant bar first."""
    names = dict.fromkeys(name for cell in cells for name in cell.methods)
    found = [_standing(cells, name) for name in names]
    return sorted(found, key=lambda s: s.constant.value if s.constant else math.inf)


def _standing(cells: Sequence[Cell], name: str) -> Standing:
    own = [cell.methods[name] for cell in cells if name in cell.methods]
    over = lambda bar, way: _ratio(cells, name, bar, way)
    return Standing(
        algorithm=name,
        title=own[0].group.title,
        settings=max(method.settings for method in own),
        cells=len(own),
        constant=over(TUNED, _at_the_end),
        scheduled=over(SCHEDULED, _at_the_end),
        stopped_constant=over(TUNED, _stopped),
        stopped_scheduled=over(SCHEDULED, _stopped),
        diverged=sum(method.group.diverged for method in own),
        runs=sum(len(method.group.runs) for method in own),
    )


Losses = Callable[[Method], Float[np.ndarray, " runs"]]


def _at_the_end(method: Method) -> Float[np.ndarray, " runs"]:
    return final_test_losses(method.group)


def final_test_losses(group: Group) -> Float[np.ndarray, " runs"]:
    """Logarithms of its runs' last test losses."""
    return _logarithms(group, lambda run: last_finite(run)["test_loss"])


def _stopped(method: Method) -> Float[np.ndarray, " runs"]:
    return _logarithms(method.stopped, stopped_test_loss)


def stopped_test_loss(run: StoredRun) -> float:
    """A run's test loss at the evaluation with the least validation loss."""
    place = int(np.nanargmin(run.records["validation_loss"]))
    return float(run.records["test_loss"][place])


def _logarithms(
    group: Group, loss: Callable[[StoredRun], float]
) -> Float[np.ndarray, " runs"]:
    # Single precision cannot tell lower losses from zero, nor from one another.
    return np.log(np.maximum([loss(run) for run in group.runs], LEAST_LOSS))


def _ratio(cells: Sequence[Cell], name: str, bar: str, losses: Losses) -> Ratio | None:
    both = [
        cell.methods
        for cell in cells
        if {name, bar} <= set(cell.methods)
        and cell.methods[bar].settings >= FEWEST_RATES
    ]
    if not both:
        return None
    return mean_ratio([(losses(m[name]), losses(m[bar])) for m in both])


def mean_ratio(
    pairs: Sequence[tuple[Float[np.ndarray, " runs"], Float[np.ndarray, " others"]]],
) -> Ratio:
    """The geometric mean over cells of the median of some losses over that of others.

    Args:
        pairs: logarithms of the losses of both kinds of runs, for each cell.
    """
    generator = np.random.default_rng(0)
    values = np.zeros(len(pairs))
    samples = np.zeros((SAMPLES, len(pairs)))
    for place, pair in enumerate(pairs):
        for sign, own in zip((1, -1), pair, strict=True):
            draws = generator.integers(len(own), size=(SAMPLES, len(own)))
            values[place] += sign * np.median(own)
            samples[:, place] += sign * np.median(own[draws], axis=1)
        if np.array_equal(*pair):  # the same runs, however they are drawn
            samples[:, place] = 0
    values, samples = (np.clip(part, -LARGEST, LARGEST) for part in (values, samples))
    drawn = generator.integers(len(pairs), size=samples.shape)
    means = np.take_along_axis(samples, drawn, axis=1).mean(axis=1)
    low, high = np.percentile(means, INTERVAL)
    numbers = (values.mean(), low, high, np.median(values), values.max())
    return Ratio(len(pairs), *[math.exp(number) for number in numbers])
