"""Who wins: methods ranked over all that a store compares, with intervals.

A *contest* is one comparison: a cell with a tuned Adam of its own, or a whole section
where there are no cells. What counts is the median of the runs' final test losses over
the reference's, the tuned Adam's where there is one; a ratio above 100 counts as 100,
so that one divergence does not outweigh all else. Bootstrap samples over contests and
over the runs in each give intervals, and say what is noise: two methods tie if either
comes out ahead in at least one of twenty samples.

References:
    Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from qlrstudy.report.bars import INTERVAL, LARGEST, SAMPLES, final_test_losses
from qlrstudy.report.groups import Group, Section, shape_words
from qlrstudy.report.profiles import TUNED, Cell

_NOISE = 0.05
# A ratio of so much, or its inverse, has the strongest shade.
_STRONGEST = 4.0


class Contest(NamedTuple):
    """One comparison, and the group of each algorithm in it.

    Attributes:
        section: where a reader finds its curves.
        task: its title.
        detail: the batch, or the budget where each algorithm has a batch of its own.
        groups: by algorithm.
    """

    section: Section
    task: str
    detail: str
    groups: Mapping[str, Group]


class Score(NamedTuple):
    """One algorithm in one contest.

    Attributes:
        loss: the median of its runs' final test losses.
        ratio: to the reference's.
        shade: of a picture, from -1 (a quarter of the reference's loss or less) to 1.
        best: whether it is the least, or cannot be told from it.
    """

    loss: float
    ratio: float
    shade: float
    best: bool


class Rank(NamedTuple):
    """One algorithm over all contests.

    Attributes:
        algorithm: its name.
        title: in words.
        ratio: geometric mean over contests of its loss over the reference's.
        low, high: the interval of 95 % of the bootstrap samples.
        best: whether it is the first, or cannot be told from it.
        scores: in each contest; `None` where it was not run.
    """

    algorithm: str
    title: str
    ratio: float
    low: float
    high: float
    best: bool
    scores: tuple[Score | None, ...]


class Ranking(NamedTuple):
    """All algorithms, the best first.

    Attributes:
        reference: the algorithm whose loss is 1.
        contests: the columns of every score.
        ranks: the best first.
        records: wins, ties and losses by reference, then by algorithm.
    """

    reference: str
    contests: tuple[Contest, ...]
    ranks: tuple[Rank, ...]
    records: Mapping[str, Mapping[str, tuple[int, int, int]]]

    @property
    def reference_title(self) -> str:
        """In words."""
        title = next(r.title for r in self.ranks if r.algorithm == self.reference)
        return f"the tuned {title}" if self.reference == TUNED else title


def ranking(sections: Sequence[Section], cells: Sequence[Cell]) -> Ranking | None:
    """The ranking of a store; `None` where nothing is compared with anything."""
    contests = _contests(sections, cells)
    names = dict.fromkeys(name for contest in contests for name in contest.groups)
    if not names:
        return None
    count = lambda name: sum(name in contest.groups for contest in contests)
    reference = TUNED if TUNED in names else max(names, key=count)
    contests = [contest for contest in contests if reference in contest.groups]
    titles = {n: g.title for contest in contests for n, g in contest.groups.items()}
    names = list(titles)
    losses, samples = _losses(contests, names)
    own = names.index(reference)
    ratios = losses - losses[:, [own]]
    means = _mean_ratios(samples - samples[:, :, [own]])
    tied, ahead = _compared(samples)
    centre = np.nanmean(_limited(ratios), axis=0)
    # Whoever was run in a few of the contests is not compared with all the others.
    few = np.isfinite(ratios).sum(axis=0) < len(contests) / 2
    order = np.lexsort((centre, few)).tolist()
    first = order[0]
    level = _compared(means[:, None])[0][0, :, first]
    low, high = np.nanpercentile(means, INTERVAL, axis=0)
    ranks = []
    for place in order:
        scores = _scores(place, losses, ratios, tied)
        ratio, *ends = (math.exp(own[place]) for own in (centre, low, high))
        best = bool(place == first or (level[place] and not few[place]))
        name = names[place]
        ranks.append(Rank(name, titles[name], ratio, ends[0], ends[1], best, scores))
    counts = (ahead & ~tied).sum(axis=0), tied.sum(axis=0)
    records = {
        other: {
            name: (int(counts[0][i, j]), int(counts[1][i, j]), int(counts[0][j, i]))
            for i, name in enumerate(names)
        }
        for j, other in enumerate(names)
    }
    return Ranking(reference, tuple(contests), tuple(ranks), records)


def _contests(sections: Sequence[Section], cells: Sequence[Cell]) -> list[Contest]:
    """The cells of each place, or its section where these leave an algorithm out."""
    made = []
    for whole in (section for section in sections if section.shape is None):
        algorithms = {group.algorithm: group for group in whole.groups}
        own = [cell for cell in cells if cell.place == whole.place]
        covered = {name for cell in own for name in cell.methods}
        if own and covered >= set(algorithms) and whole.study is None:
            for cell in own:
                groups = {name: method.group for name, method in cell.methods.items()}
                same = [s for s in sections if s.place == cell.place]
                shown = [s for s in same if s.shape == cell.shape] or [whole]
                detail = shape_words(cell.shape)
                made.append(Contest(shown[0], whole.task_title, detail, groups))
        elif len(algorithms) > 1:
            detail = ", ".join(filter(None, (str(whole.place.budget), whole.study)))
            made.append(Contest(whole, whole.task_title, detail, algorithms))
    return made


def _losses(
    contests: Sequence[Contest], names: Sequence[str]
) -> tuple[
    Float[np.ndarray, "contests algorithms"],
    Float[np.ndarray, "samples contests algorithms"],
]:
    """Logarithms of median losses, of all runs and of resampled ones.

    Not a number where an algorithm was not run.
    """
    generator = np.random.default_rng(0)
    losses = np.full((len(contests), len(names)), np.nan)
    samples = np.full((SAMPLES, *losses.shape), np.nan)
    for place, contest in enumerate(contests):
        for name, group in contest.groups.items():
            own = final_test_losses(group)
            draws = generator.integers(len(own), size=(SAMPLES, len(own)))
            column = names.index(name)
            losses[place, column] = np.median(own)
            samples[:, place, column] = np.median(own[draws], axis=1)
    return losses, samples


def _mean_ratios(
    ratios: Float[np.ndarray, "samples contests algorithms"],
) -> Float[np.ndarray, "samples algorithms"]:
    """Over contests drawn again, those in which an algorithm was run."""
    count = ratios.shape[1]
    drawn = np.random.default_rng(1).integers(count, size=(SAMPLES, count, 1))
    chosen = np.take_along_axis(_limited(ratios), drawn, axis=1)
    known = np.isfinite(chosen)
    runs = known.sum(axis=1)
    sums = np.where(known, chosen, 0.0).sum(axis=1)
    return np.where(runs, sums / np.maximum(runs, 1), np.nan)


def _compared(
    samples: Float[np.ndarray, "samples contests algorithms"],
) -> tuple[Bool[np.ndarray, "contests a b"], Bool[np.ndarray, "contests a b"]]:
    """Whether a ties with b, and whether a is ahead; neither where one was not run."""
    tied, ahead = [], []
    for own in np.moveaxis(samples, 1, 0):
        apart = own[:, :, None] - own[:, None, :]
        known = np.maximum(np.isfinite(apart).sum(axis=0), 1)
        less, more = (apart <= 0).sum(axis=0), (apart >= 0).sum(axis=0)
        tied.append(np.minimum(less, more) >= _NOISE * known)
        ahead.append(less > more)
    return np.stack(tied), np.stack(ahead)


def _scores(
    place: int, losses: np.ndarray, ratios: np.ndarray, tied: np.ndarray
) -> tuple[Score | None, ...]:
    made: list[Score | None] = []
    for contest, (own, ratio) in enumerate(
        zip(losses[:, place].tolist(), ratios[:, place].tolist(), strict=True)
    ):
        if math.isnan(own):
            made.append(None)
            continue
        first = int(np.nanargmin(losses[contest]))
        shade = max(-1.0, min(1.0, ratio / math.log(_STRONGEST)))
        best = bool(place == first or tied[contest, place, first])
        made.append(Score(math.exp(own), math.exp(ratio), shade, best))
    return tuple(made)


def _limited(ratios: np.ndarray) -> np.ndarray:
    return np.clip(ratios, -LARGEST, LARGEST)
