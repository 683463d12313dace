"""The paper's section 4 and appendices B.1 to B.4: eight algorithms, seven tasks."""

import dataclasses

from qlrstudy.spec import Budget
from qlrstudy.studies.definition import Cell, Study, Tuned

TUNED = ("sgd-minimal", "sgd-full", "adam", "kfac", "adamqlr-tuned")
UNTUNED = ("adam-untuned", "kfac-untuned", "adamqlr-untuned")
TASKS = ("uci-energy", "uci-protein", "fashion-mnist", "svhn", "cifar-10")

# The paper gives CIFAR-10 an hour where time is the only limit, else 15 minutes.
_RUNTIME_SECONDS = {task: 3600.0 if task == "cifar-10" else 900.0 for task in TASKS}


def epoch_constrained(task: str, algorithm: str) -> Cell:
    """A cell of the paper's main comparison, which other studies vary."""
    return Cell(task, algorithm, Tuned() if algorithm not in UNTUNED else {})


def _runtime(task: str, algorithm: str, tuned: Tuned) -> Cell:
    seconds = _RUNTIME_SECONDS[task]
    budget = Budget("seconds", seconds)
    how = dataclasses.replace(tuned, seconds=seconds, budget=budget)
    settings = how if algorithm in TUNED else {}
    return Cell(task, algorithm, settings, budget=budget)


# Tuned from random starts, shown from one where only K-FAC's own chance is left.
ROSENBROCK = Study(
    "rosenbrock",
    "Trajectories on Rosenbrock's function from (1, -1)",
    tuple(
        Cell("rosenbrock", name, settings, repetitions=1, scale="shown")
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

# K-FAC is not in the paper's comparison here.
PENN_TREEBANK = Study(
    "penn-treebank",
    "A GPT-2 on Penn Treebank",
    tuple(
        Cell("penn-treebank", name, settings, repetitions=10)
        for names, settings in ((TUNED, Tuned(seconds=3600.0)), (UNTUNED, {}))
        for name in names
        if "kfac" not in name
    ),
)
