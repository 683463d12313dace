"""By which rule settings are searched for. Plain data: no task is loaded."""

import dataclasses
from typing import Literal

from qlrstudy.spec import Budget

Metric = Literal["validation_loss", "training_loss"]
Resource = Literal["epochs", "seconds"]


@dataclasses.dataclass(frozen=True)
class Tuned:
    """Settings are searched for: ASHA over random ones.

    Args:
        samples: how many.
        metric: what counts at each rung and at the end.
        resource: what ASHA counts: training seconds, as in the paper, or epochs (for a
            budget in steps: steps), which do not depend on the machine.
        seconds: the most that a trial may train.
        budget: of a trial, where it is not that of the arm.
        scale: of the task, where it is not that of the arm.
        seed: of the settings and of each trial.
    """

    samples: int = 200
    metric: Metric = "validation_loss"
    resource: Resource = "seconds"
    seconds: float = 900.0
    budget: Budget | None = None
    scale: str | None = None
    seed: int = 0
