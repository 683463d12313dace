"""What a study is: arms, each of an algorithm on a task with chosen settings.

A study is data. It names tasks and algorithms as the command line does, and says where
their settings come from, which of them are varied, and how often each is run.
"""

import dataclasses
from collections.abc import Mapping

from qlrstudy.spec import Budget
from qlrstudy.tuning.rule import Tuned

Settings = Mapping[str, float]  # `batch_size` and `sequence_length` among them


@dataclasses.dataclass(frozen=True)
class Published:
    """Settings are those that the paper chose."""


@dataclasses.dataclass(frozen=True)
class Arm:
    """Runs of one algorithm on one task.

    Args:
        task: by name.
        algorithm: by name.
        settings: where they come from; plain numbers stand in for the defaults.
        points: what is varied: each changes some of the settings, or none.
        repetitions: runs of each point, with seeds 0, 1, ...
        budget: the task's, unless given.
        scale: of the task.
        unseen: whether it was decided on before anything ran there, and nothing is to
            be chosen by it: reports show such cells apart.
    """

    task: str
    algorithm: str
    settings: Tuned | Published | Settings = dataclasses.field(default_factory=dict)
    points: tuple[Settings, ...] = ({},)
    repetitions: int = 50
    budget: Budget | None = None
    scale: str = "paper"
    unseen: bool = False


@dataclasses.dataclass(frozen=True)
class Study:
    """Arms that are read together.

    Args:
        name: on the command line.
        title: what it shows.
        arms: what is run.
    """

    name: str
    title: str
    arms: tuple[Arm, ...]


def grid(**values: tuple[float, ...]) -> tuple[Settings, ...]:
    """All combinations of some values of each setting.

    >>> grid(batch_size=(16, 64), learning_rate=(0.1,))
    ({'batch_size': 16, 'learning_rate': 0.1}, {'batch_size': 64, 'learning_rate': 0.1})
    """
    points: tuple[Settings, ...] = ({},)
    for name, some in values.items():
        points = tuple({**point, name: value} for point in points for value in some)
    return points
