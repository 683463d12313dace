"""What the paper published, as data: its chosen hyperparameters and its result tables.

Clarke and Hernández-Lobato, *Studying K-FAC Heuristics by Viewing Adam through a
Second-Order Lens*, 2024. Numbers are as printed; a cell that is empty there is here.
"""

import csv
import importlib.resources
from typing import Protocol

RESULT_TABLES = (
    "epoch_constrained",
    "runtime_constrained_training",
    "runtime_constrained_validation",
)

# The protocol's budgets, by the table's name for a task.
EPOCHS = {
    "UCI Energy": 4000,
    "UCI Protein": 200,
    "Fashion-MNIST": 10,
    "SVHN": 10,
    "CIFAR-10": 72,
    "Penn Treebank": 100,
}
SECONDS = dict.fromkeys(EPOCHS, 900.0) | {"CIFAR-10": 3600.0}

# The paper's two machines: processor, devices, Python, JAX, the rest.
MACHINES = {
    "Consumer Desktop": (
        "Intel Core i7-3930K",
        "GPU: NVIDIA RTX 2080GTX",
        "3.10.11",
        "0.3.25",
        "CUDA 11.4, cuDNN 8.05",
    ),
    "Local Cluster": (
        "Intel Core i9-10900X",
        "GPU: NVIDIA RTX 2080GTX",
        "3.10.11",
        "0.3.25",
        "CUDA 11.8, cuDNN 8.05",
    ),
}

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

# What the tables call our algorithms; all others are not the paper's.
TITLES = {
    "sgd-minimal": "SGD Minimal",
    "sgd-full": "SGD Full",
    "adam": "Adam",
    "adam-untuned": "Adam (Untuned)",
    "kfac": "K-FAC",
    "kfac-untuned": "K-FAC (Untuned)",
    "adamqlr-tuned": "AdamQLR",
    "adamqlr-untuned": "AdamQLR (Untuned)",
    "adamqlr-hessian": "AdamQLR (Hessian)",
    "adamqlr-undamped": "AdamQLR (Undamped)",
}
# Where a table has its own title for one of these on a task.
_OWN_TITLES = {
    ("Rosenbrock", "sgd-minimal"): "GD Minimal",
    ("Rosenbrock", "sgd-full"): "GD Full",
    # Its figure's; "(Tuned, Hessian)" is a variant whose step is clipped.
    ("Rosenbrock", "adamqlr-tuned"): "AdamQLR (Hessian)",
}

# The authors' Rosenbrock loss is a quarter of the function, so their damping weighs
# four times as much.
_FACTORS = {("Rosenbrock", "damping"): 4.0}


class Titled(Protocol):
    """A task or an algorithm, as far as a table needs to know it."""

    @property
    def name(self) -> str:
        """On the command line."""
        ...

    @property
    def title(self) -> str:
        """In words; of a task, as the paper's tables have it."""
        ...


def table(name: str) -> list[dict[str, str]]:
    """The rows of one of the paper's tables, by column."""
    file = importlib.resources.files(__name__) / f"{name}.csv"
    return list(csv.DictReader(file.read_text().splitlines()))


def hyperparameters(task: Titled, algorithm: Titled) -> dict[str, float]:
    """The paper's choice, by our names; those it left at a default are not in it.

    Raises:
        ValueError: the paper has none for this task and algorithm, or a row without
            a number for one that it tuned.
    """
    title = TITLES.get(algorithm.name, "")
    title = _OWN_TITLES.get((task.title, algorithm.name), title)
    chosen: dict[str, float] = {}
    for row in table("hyperparameters"):
        if (row["dataset"], row["algorithm"]) == (task.title, title):
            chosen = {
                ours: float(row[theirs]) * _FACTORS.get((task.title, ours), 1.0)
                for theirs, ours in _SETTINGS.items()
                if row[theirs]
            }
            if chosen or title.endswith("(Untuned)"):  # which has nothing to choose
                return chosen
    raise ValueError(
        f"the paper has no hyperparameters for task {task.name!r} with algorithm "
        f"{algorithm.name!r}"
    )


def result(
    task: Titled, algorithm: Titled, study: str = "epoch_constrained"
) -> dict[str, float]:
    """The paper's row in one of `RESULT_TABLES`: means and errors, by column.

    Empty where the paper has no such row.
    """
    wanted = task.title, TITLES.get(algorithm.name)
    for row in table(study):
        if (row["dataset"], row["algorithm"]) == wanted:
            numbers = {name: row[name] for name in list(row)[2:]}
            return {name: float(text) for name, text in numbers.items() if text}
    return {}
