"""From what a user wrote to the run that is meant, or to what is wrong with it."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from qlrstudy import paper
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.spec import Algorithm, Budget, Run, Task, Unit
from qlrstudy.store.tunings import best_settings
from qlrstudy.studies import STUDIES
from qlrstudy.studies.definition import Cell, Published, Study
from qlrstudy.studies.scales import at_scale
from qlrstudy.tasks import TASKS
from qlrstudy.training.resolve import lookup, run_with
from qlrstudy.tuning.rule import Tuned


def selected_run(options: argparse.Namespace) -> Run:
    """The run that the options of `qlrstudy run` or `repeat` ask for.

    Raises:
        ValueError: naming the argument, its value and the cure.
    """
    task, algorithm = selected_pair(options)
    chosen = _hyperparameters(options, task, algorithm)
    given: dict[Unit, float | None] = {
        "epochs": options.epochs,
        "steps": options.steps,
        "seconds": options.seconds,
    }
    budgets = [Budget(unit, n) for unit, n in given.items() if n is not None]
    own = budgets[0] if budgets else None
    return run_with(task, algorithm, chosen, options.seed, own)


def selected_pair(options: argparse.Namespace) -> tuple[Task, Algorithm]:
    """The task, at its scale, and the algorithm."""
    scales = lookup("TASK", options.task, TASKS)
    task = lookup(f"--scale for task {options.task!r}", options.scale, scales)
    return task, lookup("ALGORITHM", options.algorithm, ALGORITHMS)


def selected_study(options: argparse.Namespace) -> Study:
    """The study that is meant, at its scale, with what the options change of it."""
    study = at_scale(lookup("NAME", options.name, STUDIES), options.scale)
    tasks = _subset("--tasks", options.tasks, [cell.task for cell in study.cells])
    names = [cell.algorithm for cell in study.cells]
    algorithms = _subset("--algorithms", options.algorithms, names)
    cells = tuple(
        _changed(cell, options)
        for cell in study.cells
        if cell.task in tasks and cell.algorithm in algorithms
    )
    return dataclasses.replace(study, cells=cells)


def _subset(what: str, given: list[str] | None, known: list[str]) -> list[str]:
    names = {name: name for name in known}
    return known if given is None else [lookup(what, name, names) for name in given]


def _changed(cell: Cell, options: argparse.Namespace) -> Cell:
    settings = cell.settings
    if isinstance(settings, Tuned):
        given = {"samples": options.samples, "resource": options.resource}
        own = {name: value for name, value in given.items() if value is not None}
        settings = dataclasses.replace(settings, **own)
        if options.hyperparameters == "paper":
            settings = Published()
    count = min(cell.repetitions, options.repetitions or cell.repetitions)
    return dataclasses.replace(cell, settings=settings, repetitions=count)


def _hyperparameters(
    options: argparse.Namespace, task: Task, algorithm: Algorithm
) -> dict[str, Any]:
    """From the paper, a tuning or a file, then `--set`, then `--batch-size`."""
    chosen: dict[str, Any] = {}
    if options.hyperparameters == "paper":
        chosen |= paper.hyperparameters(task, algorithm)
    elif options.hyperparameters == "best":
        chosen |= best_settings(options.store, task.name, algorithm.name, task.scale)
    elif options.hyperparameters is not None:
        chosen |= _read_hyperparameters(Path(options.hyperparameters))
    chosen |= dict(_assignment(text) for text in options.set)
    if options.batch_size is not None:
        chosen["batch_size"] = options.batch_size
    return chosen


def _read_hyperparameters(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise ValueError(
            f"--hyperparameters {path}: {error}; give `paper`, `best`, or a "
            'file with a JSON object such as {"learning_rate": 0.001}'
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
