"""What is searched: a trial's settings, by the tuning's seed and the trial's number.

Each trial's settings come from these alone, so more samples than before only add trials
at the end.
"""

import dataclasses
import math
import zlib

import numpy as np

from qlrstudy.spec import Algorithm, Budget, Complement, Run, Task
from qlrstudy.store.manifest import digest
from qlrstudy.store.tunings import FOLDER, TuningIdentity, trial_seed
from qlrstudy.training.provenance import DataIdentity
from qlrstudy.training.resolve import run_with
from qlrstudy.tuning.rule import Tuned


@dataclasses.dataclass(frozen=True)
class Tuning:
    """A search for the settings of an algorithm on a task.

    Args:
        task: at its scale.
        algorithm: what is tuned.
        how: by which rule.
        budget: of each trial.
    """

    task: Task
    algorithm: Algorithm
    how: Tuned
    budget: Budget

    def __post_init__(self) -> None:
        if not has_choices(self.task, self.algorithm):
            raise ValueError(
                f"nothing to tune: algorithm {self.algorithm.name!r} has no settings "
                f"to search, and task {self.task.name!r} no batch sizes; `qlrstudy "
                "repeat` runs it as it is"
            )


def has_choices(task: Task, algorithm: Algorithm) -> bool:
    """Whether there is anything to tune: settings, or the shape of a batch."""
    return bool(algorithm.search or task.batch_sizes or task.sequence_lengths)


def identity(tuning: Tuning, data: DataIdentity) -> TuningIdentity:
    """All that decides which trials there are, and how they are judged."""
    return TuningIdentity(
        task=tuning.task.name,
        scale=tuning.task.scale,
        algorithm=tuning.algorithm.name,
        search={
            name: (type(space).__name__, space.low, space.high)
            for name, space in tuning.task.searched(tuning.algorithm).items()
        },
        batch_sizes=tuning.task.batch_sizes,
        sequence_lengths=tuning.task.sequence_lengths,
        budget={tuning.budget.unit: tuning.budget.amount},
        metric=tuning.how.metric,
        resource=tuning.how.resource,
        seconds=tuning.how.seconds,
        seed=tuning.how.seed,
        data=data.sums,
        examples=data.examples,
    )


def place(known: TuningIdentity) -> str:
    """A tuning's directory, relative to the store."""
    return f"{FOLDER}/{known.task}-{known.algorithm}-{digest(known)}"


def hyperparameters(tuning: Tuning, trial: int) -> dict[str, float]:
    """A trial's settings at random."""
    # Not the same numbers for all tasks and algorithms: their luck is to be their own.
    name = f"{tuning.task.name} {tuning.algorithm.name}"
    chance = np.random.default_rng([tuning.how.seed, zlib.crc32(name.encode()), trial])
    drawn: dict[str, float] = {}
    if tuning.task.batch_sizes:
        drawn["batch_size"] = int(chance.choice(tuning.task.batch_sizes))
    if tuning.task.sequence_lengths:
        drawn["sequence_length"] = int(chance.choice(tuning.task.sequence_lengths))
    for name, space in tuning.task.searched(tuning.algorithm).items():
        value = math.exp(chance.uniform(math.log(space.low), math.log(space.high)))
        drawn[name] = 1.0 - value if isinstance(space, Complement) else value
    return drawn


def trial_run(tuning: Tuning, trial: int) -> Run:
    """A trial, with a seed that no repetition has."""
    seed = trial_seed(tuning.how.seed, trial)
    chosen = hyperparameters(tuning, trial)
    return run_with(tuning.task, tuning.algorithm, chosen, seed, tuning.budget)
