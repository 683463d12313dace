"""What the paper published, as data: its chosen hyperparameters and its result tables.

Clarke and Hernández-Lobato, *Studying K-FAC Heuristics by Viewing Adam through a
Second-Order Lens*, 2024. Numbers are as printed; a cell that is empty there is here.
"""

import csv
import importlib.resources

from qlrstudy.spec import Algorithm, Task

RESULT_TABLES = (
    "epoch_constrained",
    "runtime_constrained_training",
    "runtime_constrained_validation",
)

# The table's columns and our names for the same things.
_SETTINGS = {
    "batch_size": "batch_size",
    "learning_rate": "learning_rate",
    "momentum": "momentum",
    "weight_decay": "weight_decay",
    "initial_damping": "damping",
    "damping_decrease_factor": "damping_decrease",
    "damping_increase_factor": "damping_increase",
}

# Where the table has its own title for an algorithm on a task.
_TITLES = {
    ("Rosenbrock", "SGD Minimal"): "GD Minimal",
    ("Rosenbrock", "SGD Full"): "GD Full",
    ("Rosenbrock", "AdamQLR"): "AdamQLR (Tuned, Hessian)",
    ("Rosenbrock", "AdamQLR (Untuned)"): "AdamQLR (Untuned, Hessian)",
}


def table(name: str) -> list[dict[str, str]]:
    """The rows of one of the paper's tables, by column."""
    file = importlib.resources.files(__name__) / f"{name}.csv"
    return list(csv.DictReader(file.read_text().splitlines()))


def hyperparameters(task: Task, algorithm: Algorithm) -> dict[str, float]:
    """The paper's choice, by our names; those it left at a default are not in it.

    Raises:
        ValueError: the paper has none for this task and algorithm.
    """
    title = _TITLES.get((task.title, algorithm.title), algorithm.title)
    for row in table("hyperparameters"):
        if (row["dataset"], row["algorithm"]) == (task.title, title):
            return {
                ours: float(row[theirs])
                for theirs, ours in _SETTINGS.items()
                if row[theirs]
            }
    raise ValueError(
        f"--hyperparameters paper: the paper has none for task {task.name!r} with "
        f"algorithm {algorithm.name!r}; leave the option out, or give values with --set"
    )


def result(task: Task, algorithm: Algorithm) -> dict[str, float]:
    """The paper's row at its number of epochs: means and errors, by column.

    Empty where the paper has no such row.
    """
    for row in table("epoch_constrained"):
        if (row["dataset"], row["algorithm"]) == (task.title, algorithm.title):
            numbers = {name: row[name] for name in list(row)[2:]}
            return {name: float(text) for name, text in numbers.items() if text}
    return {}
