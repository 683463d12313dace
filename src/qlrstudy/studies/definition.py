"""What a study is: cells, each of an algorithm on a task with chosen settings.

A study is data. It names tasks and algorithms as the command line does, and says where
their settings come from, which of them are varied, and how often each is run.
"""

import dataclasses
from collections.abc import Mapping
from typing import Literal

from qlrstudy.spec import Budget
from qlrstudy.tasks import TASKS

Metric = Literal["validation_loss", "training_loss"]
Resource = Literal["epochs", "seconds"]
Scale = Literal["paper", "laptop", "smoke"]
Settings = Mapping[str, float]  # `batch_size` and `sequence_length` among them


@dataclasses.dataclass(frozen=True)
class Tuned:
    """Settings are searched for: ASHA over random ones.

    Args:
        samples: how many.
        metric: what counts at each rung and at the end.
        resource: what ASHA counts: training seconds, as in the paper, or epochs (for a
            budget in steps: steps), which do not depend on the machine.
        seconds: the most that a trial may train.
        budget: of a trial, where it is not that of the cell.
        scale: of the task, where it is not that of the cell.
        seed: of the settings and of each trial.
    """

    samples: int = 200
    metric: Metric = "validation_loss"
    resource: Resource = "seconds"
    seconds: float = 900.0
    budget: Budget | None = None
    scale: str | None = None
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Published:
    """Settings are those that the paper chose."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """Runs of one algorithm on one task.

    Args:
        task: by name.
        algorithm: by name.
        settings: where they come from; plain numbers stand in for the defaults.
        points: what is varied: each changes some of the settings, or none.
        repetitions: runs of each point, with seeds 0, 1, ...
        budget: the task's, unless given.
        scale: of the task.
    """

    task: str
    algorithm: str
    settings: Tuned | Published | Settings = dataclasses.field(default_factory=dict)
    points: tuple[Settings, ...] = ({},)
    repetitions: int = 50
    budget: Budget | None = None
    scale: str = "paper"


@dataclasses.dataclass(frozen=True)
class Study:
    """Cells that are read together.

    Args:
        name: on the command line.
        title: what it shows.
        cells: what is run.
    """

    name: str
    title: str
    cells: tuple[Cell, ...]


def grid(**values: tuple[float, ...]) -> tuple[Settings, ...]:
    """All combinations of some values of each setting.

    >>> grid(batch_size=(16, 64), learning_rate=(0.1,))
    ({'batch_size': 16, 'learning_rate': 0.1}, {'batch_size': 64, 'learning_rate': 0.1})
    """
    points: tuple[Settings, ...] = ({},)
    for name, some in values.items():
        points = tuple({**point, name: value} for point in points for value in some)
    return points


def at_scale(study: Study, scale: Scale) -> Study:
    """A study as the paper has it, for a laptop's hours, or for seconds of smoke."""
    change = {"paper": lambda cell: cell, "laptop": _laptop, "smoke": _smoke}[scale]
    return dataclasses.replace(study, cells=tuple(map(change, study.cells)))


def _laptop(cell: Cell) -> Cell:
    """Smaller tasks, fewer samples and repetitions; ASHA counts epochs."""
    settings = cell.settings
    if isinstance(settings, Tuned):
        by_time = settings.budget is not None and settings.budget.unit == "seconds"
        settings = dataclasses.replace(
            settings,
            samples=min(settings.samples, 30),
            resource="seconds" if by_time else "epochs",
            seconds=min(settings.seconds, 60.0),
            budget=_at_most(settings.budget, 60.0),
        )
    has_laptop = cell.scale == "paper" and "laptop" in TASKS[cell.task]
    return dataclasses.replace(
        cell,
        settings=settings,
        repetitions=min(cell.repetitions, 5),
        budget=_at_most(cell.budget, 60.0),
        scale="laptop" if has_laptop else cell.scale,
    )


def _smoke(cell: Cell) -> Cell:
    """A few steps of all that a study does."""
    cell = _laptop(cell)
    few = Budget("steps", 8)
    settings = cell.settings
    if isinstance(settings, Tuned):
        settings = dataclasses.replace(
            settings, samples=4, resource="epochs", budget=few
        )
    ends = cell.points if len(cell.points) < 3 else (cell.points[0], cell.points[-1])
    return dataclasses.replace(
        cell, settings=settings, points=ends, repetitions=2, budget=few
    )


def _at_most(budget: Budget | None, seconds: float) -> Budget | None:
    if budget is None or budget.unit != "seconds":
        return budget
    return Budget("seconds", min(budget.amount, seconds))
