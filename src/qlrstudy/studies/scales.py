"""A study as the paper has it, or cut down to what a laptop can do."""

import dataclasses
from typing import Literal

from qlrstudy.spec import Budget
from qlrstudy.studies.definition import Arm, Study
from qlrstudy.tasks import TASKS
from qlrstudy.tuning.rule import Tuned

Scale = Literal["paper", "laptop", "smoke"]


def at_scale(study: Study, scale: Scale) -> Study:
    """A study as the paper has it, for a laptop's hours, or for seconds of smoke."""
    change = {"paper": lambda arm: arm, "laptop": _laptop, "smoke": _smoke}[scale]
    return dataclasses.replace(study, arms=tuple(map(change, study.arms)))


def _laptop(arm: Arm) -> Arm:
    """Smaller tasks, fewer samples and repetitions; ASHA counts epochs."""
    settings = arm.settings
    if isinstance(settings, Tuned):
        by_time = settings.budget is not None and settings.budget.unit == "seconds"
        settings = dataclasses.replace(
            settings,
            samples=min(settings.samples, 30),
            resource="seconds" if by_time else "epochs",
            seconds=min(settings.seconds, 60.0),
            budget=_at_most(settings.budget, 60.0),
        )
    has_laptop = arm.scale == "paper" and "laptop" in TASKS[arm.task]
    return dataclasses.replace(
        arm,
        settings=settings,
        repetitions=min(arm.repetitions, 5),
        budget=_at_most(arm.budget, 60.0),
        scale="laptop" if has_laptop else arm.scale,
    )


def _smoke(arm: Arm) -> Arm:
    """A few steps of all that a study does."""
    arm = _laptop(arm)
    few = Budget("steps", 8)
    settings = arm.settings
    if isinstance(settings, Tuned):
        settings = dataclasses.replace(
            settings, samples=4, resource="epochs", budget=few
        )
    ends = arm.points if len(arm.points) < 3 else (arm.points[0], arm.points[-1])
    return dataclasses.replace(
        arm, settings=settings, points=ends, repetitions=2, budget=few
    )


def _at_most(budget: Budget | None, seconds: float) -> Budget | None:
    if budget is None or budget.unit != "seconds":
        return budget
    return Budget("seconds", min(budget.amount, seconds))
