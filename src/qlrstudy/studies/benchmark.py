"""The paper's section 4 and appendices B.1 to B.4: eight algorithms, seven tasks."""

import dataclasses

from qlrstudy import paper
from qlrstudy.spec import Budget
from qlrstudy.studies.definition import Arm, Study, Tuned

TUNED = ("sgd-minimal", "sgd-full", "adam", "kfac", "adamqlr-tuned")
UNTUNED = ("adam-untuned", "kfac-untuned", "adamqlr-untuned")
TASKS = ("uci-energy", "uci-protein", "fashion-mnist", "svhn", "cifar-10")


def _name(title: str) -> str:
    """Of the task that the paper's tables call so."""
    return title.lower().replace(" ", "-")


_RUNTIME_SECONDS = {_name(title): time for title, time in paper.SECONDS.items()}


def epoch_constrained(task: str, algorithm: str) -> Arm:
    """An arm of the paper's main comparison, which other studies vary."""
    return Arm(task, algorithm, Tuned() if algorithm not in UNTUNED else {})


def _runtime(task: str, algorithm: str, tuned: Tuned) -> Arm:
    seconds = _RUNTIME_SECONDS[task]
    budget = Budget("seconds", seconds)
    how = dataclasses.replace(tuned, seconds=seconds, budget=budget)
    settings = how if algorithm in TUNED else {}
    return Arm(task, algorithm, settings, budget=budget)


# Tuned from random starts, shown from one where only K-FAC's own chance is left.
ROSENBROCK = Study(
    "rosenbrock",
    "Trajectories on Rosenbrock's function from (1, -1)",
    tuple(
        Arm("rosenbrock", name, settings, repetitions=1, scale="shown")
        for names, settings in ((TUNED, Tuned(scale="paper")), (UNTUNED, {}))
        for name in names
    ),
)

EPOCH_CONSTRAINED = Study(
    "epoch-constrained",
    "Losses and accuracies after a fixed number of epochs",
    tuple(epoch_constrained(task, name) for task in TASKS for name in TUNED + UNTUNED),
)

RUNTIME_VALIDATION = Study(
    "runtime-validation",
    "Losses and accuracies after a fixed time, tuned for the validation loss",
    tuple(_runtime(task, name, Tuned()) for task in TASKS for name in TUNED + UNTUNED),
)

RUNTIME_TRAINING = Study(
    "runtime-training",
    "Losses and accuracies after a fixed time, tuned for the training loss",
    tuple(
        _runtime(task, name, Tuned(metric="training_loss"))
        for task in TASKS
        for name in TUNED + UNTUNED
    ),
)

# In the paper's time another machine takes other steps, and what the paper tuned under
# that limit is not published: so its untuned rows, step by step. Both its tables have
# the same ones. Rows that diverged, and so ended before their time, are left out.
_STEPS = {
    (_name(row["dataset"]), name): round(float(row["total_steps"]))
    for row in paper.table("runtime_constrained_validation")
    for name in UNTUNED
    if row["algorithm"] == paper.TITLES[name]
    and float(row["total_time_s"]) > 0.9 * paper.SECONDS[row["dataset"]]
}
RUNTIME_STEPS = Study(
    "runtime-steps",
    "The runtime-constrained tables' untuned rows, for the steps that they took",
    tuple(
        Arm(task, algorithm, repetitions=10, budget=Budget("steps", steps))
        for (task, algorithm), steps in _STEPS.items()
    ),
)

# K-FAC is not in the paper's comparison here.
PENN_TREEBANK = Study(
    "penn-treebank",
    "A GPT-2 on Penn Treebank",
    tuple(
        Arm("penn-treebank", name, settings, repetitions=10)
        for names, settings in ((TUNED, Tuned(seconds=3600.0)), (UNTUNED, {}))
        for name in names
        if "kfac" not in name
    ),
)
