"""The paper's statistics: bootstrap samples of the runs, and the median of each.

A run that diverged or was ended early keeps its last finite values from there on, as
in the paper, and is counted.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from qlrstudy.report.load import StoredRun
from qlrstudy.spec import Budget

SAMPLES = 50
# Of a curve: more would not show.
MOST_POINTS = 160
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
            not the common one are medians of the runs that have come so far.
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
    # About the first, so that equal medians have no error at all, not a rounded one.
    apart = medians - medians[0]
    return Band(medians[0] + apart.mean(axis=0), apart.std(axis=0))


def estimate(values: Sequence[float]) -> Estimate:
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

    `minibatch_training_loss` is that of its last step that has one, as in the paper.
    """
    place = np.flatnonzero(np.isfinite(run.records["test_loss"]))[-1]
    final = {name: float(column[place]) for name, column in run.records.items()}
    return final | {"minibatch_training_loss": run.minibatch_loss}


def final(runs: Sequence[StoredRun], quantity: str) -> Estimate:
    """What runs ended with, by the name of a field of `Record`."""
    return estimate([last_finite(run)[quantity] for run in runs])


def generalisation_gap(runs: Sequence[StoredRun]) -> Estimate:
    """Test minus training loss; its error is the sum of both, as in the paper."""
    test, training = final(runs, "test_loss"), final(runs, "minibatch_training_loss")
    return Estimate(test.value - training.value, test.error + training.error)


def evaluation_curve(runs: Sequence[StoredRun]) -> Curve:
    """Losses and accuracies along training, at evaluations."""
    axis = _axis_name(runs[0].budget)
    axes = [run.records[axis] for run in runs]
    grid = _grid(axes, even=axis == "training_seconds")
    columns = [name for name in LOSSES + ACCURACIES if _known(runs, name)]
    bands = {
        name: bootstrap(
            np.stack(
                [
                    held(run.records[name])[_latest(own, grid)]
                    for run, own in zip(runs, axes, strict=True)
                ]
            )
        )
        for name in columns
    }
    return _curve(runs, axes, grid, axis, bands)


def evolution_curve(runs: Sequence[StoredRun]) -> Curve | None:
    """Step size and damping along training, at steps; `None` where no run has any."""
    runs = [run for run in runs if len(run.steps)]
    if not runs:
        return None
    seconds = _axis_name(runs[0].budget) == "training_seconds"
    axis = "training_seconds" if seconds else "step"
    axes = [_of_steps(run, axis) for run in runs]
    grid = _grid(axes, even=seconds)
    bands = {}
    for name in ("step_size", "damping"):
        rows = [
            held(getattr(run, name))[_latest(own, grid)]
            for run, own in zip(runs, axes, strict=True)
        ]
        if np.isfinite(rows).any():
            bands[name] = bootstrap(np.stack(rows))
    return _curve(runs, axes, grid, axis, bands) if bands else None


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
    axes: Sequence[np.ndarray],
    grid: np.ndarray,
    axis: str,
    bands: Mapping[str, Band],
) -> Curve:
    at = {
        name: _median_of_those_there(runs, axes, grid, axis, name)
        for name in ("step", "epoch", "training_seconds")
    }
    return Curve(at["step"], at["epoch"], at["training_seconds"], bands)


def _median_of_those_there(
    runs: Sequence[StoredRun],
    axes: Sequence[np.ndarray],
    grid: np.ndarray,
    axis: str,
    name: str,
) -> np.ndarray:
    if name == axis:
        return grid
    rows = np.stack(
        [np.interp(grid, run.records[axis], run.records[name]) for run in runs]
    )
    there: Bool[np.ndarray, "runs points"] = np.stack([own[-1] >= grid for own in axes])
    return np.nanmedian(np.where(there, rows, np.nan), axis=0)
