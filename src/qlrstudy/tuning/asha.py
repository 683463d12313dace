"""ASHA, asynchronous successive halving: which trials go on at each rung.

A trial that reaches a milestone goes on if its loss is among the best part of those
that reached it before, and the first always does: a percentile. Ray Tune's scheduler,
which is the tests' oracle, has the same rule, but only as a whole with its own trials:
it asks and remembers at once, so that a log can be replayed only if every line of it is
there and each decision comes out as it did. Here a decision and what a rung remembers
are two calls, and what the log says was decided is taken as it is.

Li et al., *A System for Massively Parallel Hyperparameter Tuning*, 2020.
"""

from collections import defaultdict

import numpy as np

REDUCTION = 4.0  # of each rung's trials one in so many goes on
WORST = 3e38  # what a diverged trial's loss counts as; finite, so that it has a rank


class Asha:
    """The rungs, and the losses of the trials that reached each.

    Args:
        first: milestone of all.
        most: of the resource that a trial may have.

    Attributes:
        milestones: in order, below `most`.
    """

    def __init__(self, first: float, most: float) -> None:
        self.milestones: list[float] = []
        while (at := first * REDUCTION ** len(self.milestones)) < most:
            self.milestones.append(at)
        self._losses: dict[float, list[float]] = defaultdict(list)

    def goes_on(self, milestone: float, loss: float) -> bool:
        """Whether a trial with this loss is among the best that have come so far."""
        before = self._losses[milestone]
        return not before or bool(loss <= np.percentile(before, 100 / REDUCTION))

    def enter(self, milestone: float, loss: float) -> None:
        """Remember the loss of a trial that has reached a milestone."""
        self._losses[milestone].append(loss if loss < WORST else WORST)
