"""Arguments that several commands have, and what they stand for."""

import argparse
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qlrstudy.spec import DataOptions


def pair(parser: argparse.ArgumentParser) -> None:
    """What is learnt, and what learns it."""
    parser.add_argument("task", metavar="TASK", help="see `qlrstudy tasks`")
    parser.add_argument("algorithm", metavar="ALGORITHM", help="`qlrstudy algorithms`")
    parser.add_argument("--scale", default="paper", help="paper, laptop or dry")


def settings(parser: argparse.ArgumentParser) -> None:
    """What decides a run, beside its task and algorithm."""
    parser.add_argument("--seed", type=int, default=0, help="of all chance; 0")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--epochs", type=int, help="in place of the protocol's")
    budget.add_argument("--steps", type=int, help="likewise")
    budget.add_argument("--seconds", type=float, help="likewise, of training")
    parser.add_argument("--batch-size", type=int, help="examples of a step")
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="hyperparameters",
    )
    parser.add_argument(
        "--hyperparameters", metavar="best|paper|FILE", help="best: tuned; FILE: JSON"
    )


def store_and_data(parser: argparse.ArgumentParser) -> None:
    """Where runs are kept, and where data come from."""
    parser.add_argument(
        "--store", type=Path, default=Path("runs"), metavar="DIR", help="./runs"
    )
    parser.add_argument(
        "--partial-data", action="store_true", help="an incomplete set will do"
    )
    data_directory(parser)


def data_directory(parser: argparse.ArgumentParser) -> None:
    """Where the publishers' files are."""
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="the publishers' files; QLR_DATA, or the download cache",
    )


def data_options(options: argparse.Namespace) -> DataOptions:
    """Where data may come from, by the options of `store_and_data`."""
    return DataOptions(options.data_dir, options.partial_data)


def cluster(parser: argparse.ArgumentParser) -> None:
    """Which Ray, and what each run gets of it."""
    parser.add_argument("--address", help="of a Ray cluster; this machine alone")
    parser.add_argument("--workers", type=int, help="runs at a time; what there is")
    parser.add_argument("--cores", type=float, default=1.0, help="of a run; 1")
    parser.add_argument("--accelerators", type=float, help="of a run, or a part of one")


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
