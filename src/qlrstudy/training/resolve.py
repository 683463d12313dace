"""From hyperparameters by name to the run that is meant, or to what is wrong."""

import math
from collections.abc import Mapping
from typing import Any

from qlrstudy.names import lookup
from qlrstudy.spec import Algorithm, BatchShape, Budget, Run, Task

_SHAPE = ("batch_size", "sequence_length")


def run_with(
    task: Task,
    algorithm: Algorithm,
    chosen: Mapping[str, Any],
    seed: int,
    budget: Budget | None = None,
) -> Run:
    """A run with some hyperparameters, and defaults for the others.

    Args:
        task: what is learnt.
        algorithm: what learns it.
        chosen: settings, and `batch_size` and `sequence_length`, by name.
        seed: of all chance.
        budget: the task's, unless given.

    Raises:
        ValueError: naming the hyperparameter, its value and what is allowed.
    """
    _check_names(task, algorithm, chosen)
    settings = {**algorithm.defaults, **chosen}
    default = algorithm.batch(task)
    shape = BatchShape(
        int(settings.pop("batch_size", default.size)),
        int(settings.pop("sequence_length", default.length or 0)) or None,
    )
    if algorithm.traceable:
        # Plain numbers are checked, traced ones are not; any number of steps will do.
        algorithm.bind(task, {**settings, "steps": 1})
    return Run(task, algorithm, settings, shape, seed, budget or task.budget)


def _check_names(task: Task, algorithm: Algorithm, chosen: Mapping[str, Any]) -> None:
    shape = _SHAPE if task.sequence_lengths else _SHAPE[:1]
    names = {n: n for n in (*algorithm.defaults, *shape)}
    for name, value in chosen.items():
        lookup(f"hyperparameter of {algorithm.name}", name, names)
        _check_number(name, value, whole=name in _SHAPE)


def _check_number(name: str, value: Any, *, whole: bool) -> None:
    good = isinstance(value, int | float) and math.isfinite(value) and value >= 0
    if not good or (whole and (value != int(value) or value < 1)):
        allowed = "a whole number of at least 1" if whole else "a number of at least 0"
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
