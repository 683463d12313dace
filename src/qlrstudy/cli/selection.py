"""From what a user wrote to the run that is meant, or to what is wrong with it."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qlrstudy import paper
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.cli.options import Changes, Settings
from qlrstudy.names import lookup
from qlrstudy.spec import Algorithm, Budget, Run, Task, Unit
from qlrstudy.store.tunings import best_settings
from qlrstudy.studies import STUDIES
from qlrstudy.studies.definition import Arm, Published, Study
from qlrstudy.studies.expand import known_settings
from qlrstudy.studies.scales import Scale, at_scale
from qlrstudy.tasks import TASKS
from qlrstudy.training.resolve import run_with
from qlrstudy.tuning.rule import Tuned


def selected_run(task: str, algorithm: str, settings: Settings, store: Path) -> Run:
    """The run that `qlrstudy run` or `repeat` is asked for.

    Args:
        task: by name, as `algorithm`.
        algorithm: what learns it.
        settings: as given.
        store: where a tuning's winner is found.

    Raises:
        ValueError: naming the argument, its value and the cure.
    """
    learnt, learner = selected_pair(task, algorithm, settings.scale)
    chosen = _hyperparameters(settings, store, learnt, learner)
    given: dict[Unit, float | None] = {
        "epochs": settings.epochs,
        "steps": settings.steps,
        "seconds": settings.seconds,
    }
    budgets = [Budget(unit, n) for unit, n in given.items() if n is not None]
    own = budgets[0] if budgets else None
    return run_with(learnt, learner, chosen, settings.seed, own)


def selected_pair(task: str, algorithm: str, scale: str) -> tuple[Task, Algorithm]:
    """The task, at its scale, and the algorithm."""
    scales = lookup("TASK", task, TASKS)
    learnt = lookup(f"--scale for task {task!r}", scale, scales)
    return learnt, lookup("ALGORITHM", algorithm, ALGORITHMS)


def selected_study(name: str, scale: Scale, changes: Changes) -> Study:
    """The study that is meant, at its scale, with what is changed of it."""
    study = at_scale(lookup("NAME", name, STUDIES), scale)
    tasks = _subset("--tasks", changes.tasks, [arm.task for arm in study.arms])
    names = [arm.algorithm for arm in study.arms]
    algorithms = _subset("--algorithms", changes.algorithms, names)
    arms = tuple(
        _changed(arm, changes)
        for arm in study.arms
        if arm.task in tasks and arm.algorithm in algorithms
    )
    _refuse_unpublished(arms)
    return dataclasses.replace(study, arms=arms)


def _refuse_unpublished(arms: Sequence[Arm]) -> None:
    """Name all arms at once that are to have the paper's settings, and cannot."""
    lacking = []
    for arm in arms:
        try:
            known_settings(arm)
        except ValueError:
            lacking.append(f"{arm.algorithm} on {arm.task}")
    if lacking:
        raise ValueError(
            "--hyperparameters paper: the paper has no hyperparameters for "
            f"{', '.join(lacking)}; leave these out with --tasks or --algorithms"
        )


def _subset(what: str, given: Sequence[str], known: list[str]) -> list[str]:
    names = {name: name for name in known}
    return [lookup(what, name, names) for name in given] or known


def _changed(arm: Arm, changes: Changes) -> Arm:
    settings = arm.settings
    if isinstance(settings, Tuned):
        given = {"samples": changes.samples, "resource": changes.resource}
        own = {name: value for name, value in given.items() if value is not None}
        settings = dataclasses.replace(settings, **own)
        if changes.hyperparameters == "paper":
            settings = Published()
    count = changes.repetitions or arm.repetitions
    if arm.scale == "shown":  # from one start and without batches: seeds hardly differ
        count = min(count, arm.repetitions)
    changed = dataclasses.replace(arm, settings=settings, repetitions=count)
    return changed if changes.seconds is None else _in_time(changed, changes.seconds)


def _in_time(arm: Arm, seconds: float) -> Arm:
    """An arm with another time limit: of runs or, where it has epochs, of trials."""
    limited = arm.budget is not None and arm.budget.unit == "seconds"
    budget = Budget("seconds", seconds) if limited else arm.budget
    settings = arm.settings
    if isinstance(settings, Tuned):
        own = Budget("seconds", seconds) if limited else settings.budget
        settings = dataclasses.replace(settings, seconds=seconds, budget=own)
    return dataclasses.replace(arm, settings=settings, budget=budget)


def _hyperparameters(
    settings: Settings, store: Path, task: Task, algorithm: Algorithm
) -> dict[str, Any]:
    """From the paper, a tuning or a file, then `--set`, then `--batch-size`."""
    chosen: dict[str, Any] = {}
    if settings.hyperparameters == "paper":
        try:
            chosen |= paper.hyperparameters(task, algorithm)
        except ValueError as error:
            raise ValueError(
                f"--hyperparameters paper: {error}; give values with --set in its place"
            ) from None
    elif settings.hyperparameters == "best":
        chosen |= best_settings(store, task.name, algorithm.name, task.scale)
    elif settings.hyperparameters is not None:
        chosen |= _read_hyperparameters(Path(settings.hyperparameters))
    chosen |= dict(_assignment(text) for text in settings.set)
    if settings.batch_size is not None:
        chosen["batch_size"] = settings.batch_size
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
