"""From what a user wrote to the run that is meant, or to what is wrong with it."""

import argparse
import difflib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from qlrstudy import paper
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.spec import Algorithm, BatchShape, Budget, Run, Task
from qlrstudy.tasks import TASKS

T = TypeVar("T")
_SHAPE = ("batch_size", "sequence_length")


def choose(options: argparse.Namespace) -> Run:
    """The run that the options of `qlrstudy run` ask for.

    Raises:
        ValueError: naming the argument, its value and the cure.
    """
    scales = _lookup("TASK", options.task, TASKS)
    task = _lookup(f"--scale for task {options.task!r}", options.scale, scales)
    algorithm = _lookup("ALGORITHM", options.algorithm, ALGORITHMS)
    chosen = _hyperparameters(options, task, algorithm)
    default = algorithm.batch(task)
    shape = BatchShape(
        int(chosen.pop("batch_size", default.size)),
        int(chosen.pop("sequence_length", default.length or 0)) or None,
    )
    settings = {**algorithm.defaults, **chosen}
    if algorithm.traceable:
        # Plain numbers are checked, traced ones are not; any number of steps will do.
        algorithm.bind(task, {**settings, "steps": 1})
    given = {k: getattr(options, k) for k in ("epochs", "steps", "seconds")}
    own = any(value is not None for value in given.values())
    budget = Budget(**given) if own else task.budget
    return Run(task, algorithm, settings, shape, options.seed, budget)


def _hyperparameters(
    options: argparse.Namespace, task: Task, algorithm: Algorithm
) -> dict[str, float]:
    """From the paper or a file, then `--set`, then `--batch-size`."""
    chosen: dict[str, Any] = {}
    if options.hyperparameters == "paper":
        chosen |= paper.hyperparameters(task, algorithm)
    elif options.hyperparameters is not None:
        chosen |= _read_hyperparameters(Path(options.hyperparameters))
    chosen |= dict(_assignment(text) for text in options.set)
    if options.batch_size is not None:
        chosen["batch_size"] = options.batch_size
    shape = _SHAPE if task.sequence_lengths else _SHAPE[:1]
    for name, value in chosen.items():
        names = {n: n for n in (*algorithm.defaults, *shape)}
        _lookup(f"hyperparameter of {algorithm.name}", name, names)
        _check_number(name, value, whole=name in _SHAPE)
    return chosen


def _check_number(name: str, value: Any, *, whole: bool) -> None:
    good = isinstance(value, int | float) and math.isfinite(value) and value >= 0
    if not good or (whole and (value != int(value) or value < 1)):
        allowed = "a whole number of at least 1" if whole else "a number of at least 0"
        raise ValueError(f"{name} must be {allowed}, got {value!r}")


def _read_hyperparameters(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(
            f"--hyperparameters {path}: {error}; give `paper`, or a file with a JSON "
            'object such as {"learning_rate": 0.001}'
        ) from error
    if not isinstance(content, dict):
        raise ValueError(f"--hyperparameters {path}: it must hold one JSON object")
    return content


def _assignment(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise ValueError(
            f"--set {text}: must be NAME=NUMBER, such as learning_rate=0.001"
        ) from None


def _lookup(what: str, name: str, known: Mapping[str, T]) -> T:
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(
        f"{what} must be one of {', '.join(known) or '(there is none)'}, "
        f"got {name!r}{hint}"
    )
