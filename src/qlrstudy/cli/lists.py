"""What there is: `qlrstudy tasks`, `algorithms`, `studies`, and `status` of a store."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.cli import display
from qlrstudy.spec import Algorithm, Complement
from qlrstudy.store import status
from qlrstudy.studies import STUDIES
from qlrstudy.tasks import TASKS


def add_parsers(commands: Any) -> None:
    """Add the commands to a parser's subcommands."""
    status_ = commands.add_parser("status", help="what a store has, and lacks")
    status_.set_defaults(command=_status)
    status_.add_argument("store", type=Path, metavar="STORE", help="a directory")

    studies = commands.add_parser("studies", help="what can be studied")
    studies.set_defaults(command=_studies)

    tasks = commands.add_parser("tasks", help="what can be learnt")
    tasks.set_defaults(command=_tasks)
    algorithms = commands.add_parser("algorithms", help="what can learn it")
    algorithms.set_defaults(command=_algorithms)


def _status(options: argparse.Namespace) -> int:
    store: Path = options.store
    if not store.is_dir():
        raise ValueError(f"STORE must be a directory with runs, got {store}")
    display.states("Runs", status.by_algorithm(store))
    display.states("Tunings", list(status.by_tuning(store)))
    display.states("Studies", list(status.by_study(store)))
    failures = list(status.failures(store))
    for path, error in failures:
        text = f"failed: {path}\n{error.rstrip()}"
        display.ERR.print(text, markup=False, highlight=False, soft_wrap=True)
    return 1 if failures else 0


def _studies(options: argparse.Namespace) -> int:
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
    display.table("Studies", ["name", "shows", "tasks", "algorithms"], rows)
    return 0


def _tasks(options: argparse.Namespace) -> int:
    del options
    rows = [
        [name, task.title, scale, str(task.budget), str(task.adam_batch.size)]
        for name, scales in TASKS.items()
        for scale, task in scales.items()
    ]
    display.table("Tasks", ["name", "title", "scale", "budget", "Adam's batch"], rows)
    return 0


def _algorithms(options: argparse.Namespace) -> int:
    del options
    rows = [
        [name, algorithm.title, "\n".join(_settings(algorithm))]
        for name, algorithm in ALGORITHMS.items()
    ]
    header = ["name", "title", "settings: default, and range if tuned"]
    display.table("Algorithms", header, rows)
    return 0


def _settings(algorithm: Algorithm) -> Iterator[str]:
    for name, value in algorithm.defaults.items():
        space = algorithm.search.get(name)
        what = f"1 - {name}" if isinstance(space, Complement) else "log"
        searched = "" if space is None else f", {what} [{space.low:g}, {space.high:g}]"
        yield f"{name}: {value:g}{searched}"
