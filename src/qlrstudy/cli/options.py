"""Options that several commands share, as values. Loads nothing else of the study."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter, validators

from qlrstudy.cli import catalogue

if TYPE_CHECKING:
    from qlrstudy.cluster.connection import Resources
    from qlrstudy.spec import DataOptions

Resource = Literal["epochs", "seconds"]
Metric = Literal["validation_loss", "training_loss"]


def names(of: str) -> Callable[[Any], Iterator[str]]:
    """What a shell completes: the names of tasks, algorithms, studies or sets."""
    return lambda context: catalogue.names(of)


def _some(metavar: str, of: str = "") -> Parameter:
    """One value or more, in a row or with the option again before each."""
    completer = names(of) if of else None
    return Parameter(metavar=metavar, consume_multiple=(1, None), completer=completer)


_POSITIVE = Parameter(validator=validators.Number(gt=0))
Seed = Annotated[int, Parameter(validator=validators.Number(gte=0, lt=2**32))]
# A trial's seed is a million times this one, and its number.
TuningSeed = Annotated[int, Parameter(validator=validators.Number(gte=0, lt=4294))]
Count = Annotated[int, Parameter(validator=validators.Number(gte=1))]
Amount = Annotated[float, _POSITIVE]
Directory = Annotated[Path, Parameter(metavar="DIR")]
TaskName = Annotated[str, Parameter(completer=names("tasks"))]
AlgorithmName = Annotated[str, Parameter(completer=names("algorithms"))]
StudyName = Annotated[str, Parameter(completer=names("studies"))]
TaskNames = Annotated[tuple[str, ...], _some("TASK", "tasks")]
AlgorithmNames = Annotated[tuple[str, ...], _some("ALGORITHM", "algorithms")]
SetName = Annotated[str, Parameter(completer=names("sets"))]
Assignments = Annotated[tuple[str, ...], _some("NAME=VALUE")]
_BUDGET = Group(
    "Budget, in place of the task's",
    validator=validators.MutuallyExclusive(),
    sort_key=1,
)
_PLACE = Group("Store and data", sort_key=2)
_CLUSTER = Group("Workers", sort_key=3)


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What decides a run, beside its task and algorithm.

    Args:
        scale: of the task, as `qlrstudy tasks` lists them.
        seed: of all chance.
        batch_size: examples of a step; by default the algorithm's.
        set: hyperparameters, such as learning_rate=0.01.
        hyperparameters: `best` takes the winner of a tuning in the store, `paper` the
            paper's choice; or a file with a JSON object.
        epochs: passes over the training set.
        steps: updates of the parameters.
        seconds: of training.
    """

    scale: str = "paper"
    seed: Seed = 0
    batch_size: Annotated[int | None, Parameter(metavar="INT")] = None
    set: Assignments = ()
    hyperparameters: Annotated[
        str | None, Parameter(metavar="best|paper|FILE", completer=lambda c: _CHOICES)
    ] = None
    epochs: Annotated[int | None, Parameter(group=_BUDGET)] = None
    steps: Annotated[int | None, Parameter(group=_BUDGET)] = None
    seconds: Annotated[float | None, Parameter(group=_BUDGET)] = None


_CHOICES = ("best", "paper")


@Parameter(name="*")
@dataclasses.dataclass(frozen=True, kw_only=True)
class Changes:
    """What is changed of a study.

    Args:
        tasks: only these.
        algorithms: only these.
        samples: settings tried by each tuning.
        repetitions: of each setting; a path that is shown is run no more often.
        resource: what ASHA counts.
        seconds: the time of each run, where the study limits time; else of each trial.
        hyperparameters: tune, or take the paper's.
    """

    tasks: TaskNames = ()
    algorithms: AlgorithmNames = ()
    samples: Count | None = None
    repetitions: Count | None = None
    resource: Resource | None = None
    seconds: Amount | None = None
    hyperparameters: Literal["best", "paper"] = "best"


@Parameter(name="*", group=_PLACE)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where runs are kept, and where data come from.

    Args:
        store: the directory of all runs.
        partial_data: an incomplete data set will do.
        data_dir: the publishers' files; by default QLR_DATA, or the download cache.
    """

    store: Directory = Path("runs")
    partial_data: bool = False
    data_dir: Directory | None = None

    @property
    def data(self) -> DataOptions:
        """Where data may come from."""
        from qlrstudy.spec import DataOptions

        return DataOptions(self.data_dir, self.partial_data)


@Parameter(name="*", group=_CLUSTER)
@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """Which Ray, and what each run gets of it.

    Args:
        address: of a Ray cluster; by default this machine alone.
        workers: runs at a time; by default as many as there is room for.
        cores: of each run.
        accelerators: of each run, or a part of one.
    """

    address: str | None = None
    workers: Count | None = None
    cores: Amount = 1.0
    accelerators: Amount | None = None

    @property
    def resources(self) -> Resources:
        """The same, as the driver has it."""
        from qlrstudy.cluster.connection import Resources

        return Resources(self.workers, self.cores, self.accelerators, self.address)


def stop_on_signals() -> Callable[[], bool]:
    """Let the first Ctrl-C, or a scheduler's SIGTERM, end the run in good order."""
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        del frame
        asked.append(number)
        signal.signal(number, signal.default_int_handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return lambda: bool(asked)
