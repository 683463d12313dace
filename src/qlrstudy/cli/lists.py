"""What there is: `qlrstudy tasks`, `algorithms` and `studies`."""

import argparse
from collections.abc import Iterator

from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.cli.console import table
from qlrstudy.spec import Algorithm, Complement
from qlrstudy.studies import STUDIES
from qlrstudy.tasks import TASKS


def studies(options: argparse.Namespace) -> int:
    """List what can be studied."""
    del options
    rows = [
        [
            name,
            known.title,
            ", ".join(dict.fromkeys(cell.task for cell in known.cells)),
            ", ".join(dict.fromkeys(cell.algorithm for cell in known.cells)),
        ]
        for name, known in STUDIES.items()
    ]
    table("Studies", ["name", "shows", "tasks", "algorithms"], rows)
    return 0


def tasks(options: argparse.Namespace) -> int:
    """List what can be learnt."""
    del options
    rows = [
        [name, task.title, scale, str(task.budget), str(task.adam_batch.size)]
        for name, scales in TASKS.items()
        for scale, task in scales.items()
    ]
    table("Tasks", ["name", "title", "scale", "budget", "Adam's batch"], rows)
    return 0


def algorithms(options: argparse.Namespace) -> int:
    """List what can learn it."""
    del options
    rows = [
        [name, algorithm.title, "\n".join(_settings(algorithm))]
        for name, algorithm in ALGORITHMS.items()
    ]
    header = ["name", "title", "settings: default, and range if tuned"]
    table("Algorithms", header, rows)
    return 0


def _settings(algorithm: Algorithm) -> Iterator[str]:
    for name, value in algorithm.defaults.items():
        space = algorithm.search.get(name)
        what = f"1 - {name}" if isinstance(space, Complement) else "log"
        searched = "" if space is None else f", {what} [{space.low:g}, {space.high:g}]"
        yield f"{name}: {value:g}{searched}"
