"""The paper's statistics: bootstrap samples of the runs, and the median of each.

A run that diverged or was ended early keeps its last finite values from there on, as
in the paper, and is counted; its steps and its time are those to its end.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from qlrstudy.report.load import StoredRun
from qlrstudy.spec import Budget

SAMPLES = 50
# Of a curve: more would not show.
MOST_POINTS = 160
AXES = ("step", "epoch", "training_seconds")
LOSSES = ("training_loss", "validation_loss", "test_loss")
ACCURACIES = ("training_accuracy", "validation_accuracy", "test_accuracy")


class Estimate(NamedTuple):
    """Mean and standard deviation of the bootstrap samples' medians."""

    value: float
    error: float


class Band(NamedTuple):
    """Likewise, along a curve."""

    mean: Float[np.ndarray, " points"]
    error: Float[np.ndarray, " points"]


class Curve(NamedTuple):
    """Medians of some runs on a common axis.

    Attributes:
        steps, epochs, seconds: the same points, on each of three axes; the two that are
            not the common one are medians of the runs, and never fall.
        bands: by quantity; those that no run has are not in it.
    """

    steps: Float[np.ndarray, " points"]
    epochs: Float[np.ndarray, " points"]
    seconds: Float[np.ndarray, " points"]
    bands: Mapping[str, Band]


def bootstrap(values: Float[np.ndarray, "runs *points"]) -> Band:
    """Resample the runs with replacement; mean and deviation of the medians.

    The draws are the same for any values, so that a report can be made again.
    """
    count = len(values)
    draws = np.random.default_rng(0).integers(count, size=(SAMPLES, count))
    medians = np.median(values[draws], axis=1)
    # About the first, so that equal medians have no error at all, not a rounded one;
    # samples last, so that a column is summed the same alone and beside others.
    apart = np.moveaxis(medians - medians[0], 0, -1).copy()
    return Band(medians[0] + apart.mean(axis=-1), apart.std(axis=-1))


def estimate(values: Sequence[float] | np.ndarray) -> Estimate:
    """One number of each run, summed up; runs that have none do not count."""
    known = np.array([value for value in values if np.isfinite(value)])
    if not len(known):
        return Estimate(float("nan"), float("nan"))
    mean, error = bootstrap(known)
    return Estimate(float(mean), float(error))


def held(values: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
    """Each value that is not finite replaced by the last finite one before it."""
    places = np.where(np.isfinite(values), np.arange(len(values)), -1)
    latest = np.maximum.accumulate(places)
    return np.where(latest >= 0, values[latest], np.nan)


def last_finite(run: StoredRun) -> dict[str, float]:
    """A run's final values: its last evaluation that has a loss.

    How long it trained is that of its very last evaluation. `minibatch_training_loss`
    is that of its last step that has one, as in the paper.
    """
    place = np.flatnonzero(np.isfinite(run.records["test_loss"]))[-1]
    final = {name: float(column[place]) for name, column in run.records.items()}
    ends = {name: float(run.records[name][-1]) for name in AXES}
    return final | ends | {"minibatch_training_loss": run.minibatch_loss}


def finals(runs: Sequence[StoredRun]) -> dict[str, Estimate]:
    """What runs ended with, by the name of a field of `Record`.

    `generalisation_gap` is the test loss minus that of the last minibatch; its error is
    the sum of both, as in the paper.
    """
    ends = [last_finite(run) for run in runs]
    columns = {name: np.array([end[name] for end in ends]) for name in ends[0]}
    # What every run has is drawn at once, since the draws are the same.
    shared = [name for name, column in columns.items() if np.isfinite(column).all()]
    band = bootstrap(np.stack([columns[name] for name in shared], axis=1))
    found = {
        name: Estimate(float(band.mean[i]), float(band.error[i]))
        for i, name in enumerate(shared)
    }
    found |= {name: estimate(columns[name]) for name in columns if name not in found}
    test, training = found["test_loss"], found["minibatch_training_loss"]
    gap = Estimate(test.value - training.value, test.error + training.error)
    return found | {"generalisation_gap": gap}


def evaluation_curve(runs: Sequence[StoredRun]) -> Curve:
    """Losses and accuracies along training, at evaluations."""
    axis = _axis_name(runs[0].budget)
    axes = [run.records[axis] for run in runs]
    grid = _grid(axes, even=axis == "training_seconds")
    columns = [name for name in LOSSES + ACCURACIES if _known(runs, name)]
    rows = {
        name: [
            held(run.records[name])[_latest(own, grid)]
            for run, own in zip(runs, axes, strict=True)
        ]
        for name in columns
    }
    return _curve(runs, grid, axis, rows)


def evolution_curve(runs: Sequence[StoredRun]) -> Curve | None:
    """Step size and damping along training, at steps; `None` where no run has any."""
    runs = [run for run in runs if len(run.steps)]
    if not runs:
        return None
    seconds = _axis_name(runs[0].budget) == "training_seconds"
    axis = "training_seconds" if seconds else "step"
    axes = [_of_steps(run, axis) for run in runs]
    grid = _grid(axes, even=seconds)
    rows = {
        name: [
            held(getattr(run, name))[_latest(own, grid)]
            for run, own in zip(runs, axes, strict=True)
        ]
        for name in ("step_size", "damping")
    }
    known = {name: own for name, own in rows.items() if np.isfinite(own).any()}
    return _curve(runs, grid, axis, known) if known else None


def _axis_name(budget: Budget) -> str:
    """Runs of equal steps are compared at steps; those of equal time, at times."""
    return "training_seconds" if budget.unit == "seconds" else "step"


def _known(runs: Sequence[StoredRun], name: str) -> bool:
    return all(np.isfinite(run.records[name]).any() for run in runs)


def _grid(axes: Sequence[np.ndarray], *, even: bool) -> Float[np.ndarray, " points"]:
    """The common axis: where any run was evaluated, or even where no two agree."""
    if even:
        end = max(float(own[-1]) for own in axes)
        return np.linspace(0.0, end, MOST_POINTS)
    points = np.unique(np.concatenate(list(axes)))
    places = np.linspace(0, len(points) - 1, min(len(points), MOST_POINTS))
    return points[np.unique(places.round().astype(int))]


def _latest(own: np.ndarray, grid: np.ndarray) -> Int[np.ndarray, " points"]:
    """For each point of the grid, a run's latest evaluation that far."""
    return np.maximum(np.searchsorted(own, grid, side="right") - 1, 0)


def _of_steps(run: StoredRun, axis: str) -> np.ndarray:
    """An axis at a run's kept steps, in a straight line from record to record."""
    known = run.records["step"], run.records[axis]
    return np.interp(run.steps, *known)


def _curve(
    runs: Sequence[StoredRun],
    grid: np.ndarray,
    axis: str,
    rows: Mapping[str, Sequence[np.ndarray]],
) -> Curve:
    """The bands of all quantities, from a row for each run, and the three axes."""
    means, errors = bootstrap(np.stack([np.stack(own) for own in rows.values()], 1))
    bands = {name: Band(means[i], errors[i]) for i, name in enumerate(rows)}
    at = {
        name: grid if name == axis else _median_axis(runs, grid, axis, name)
        for name in AXES
    }
    return Curve(at["step"], at["epoch"], at["training_seconds"], bands)


def _median_axis(
    runs: Sequence[StoredRun], grid: np.ndarray, axis: str, name: str
) -> np.ndarray:
    """How far the median run has come on another axis.

    A run that has ended stays where it is, as its losses do: without it the median
    would fall back where a slow one ends.
    """
    rows = [np.interp(grid, run.records[axis], run.records[name]) for run in runs]
    return np.median(rows, axis=0)
