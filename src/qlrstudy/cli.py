"""The command line: parse arguments, make one call."""

import argparse
import json
import math
import platform
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import pooch

from qlrstudy import display, provenance
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.choose import choose
from qlrstudy.data import DataError, fetch_sets, list_sets, verify_sets
from qlrstudy.spec import (
    Algorithm,
    Budget,
    Complement,
    DataOptions,
    Run,
)
from qlrstudy.store import StoreError
from qlrstudy.tasks import TASKS
from qlrstudy.train import Outcome, train


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 for done, 2 for a mistake, 130 for an interrupted run."""
    parser = _parser()
    options = parser.parse_args(arguments)
    _keep_compiled_programs()
    try:
        return options.command(options)
    except (ValueError, DataError, StoreError) as error:
        display.ERR.print(f"qlrstudy: error: {error}", markup=False, soft_wrap=True)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("qlrstudy", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="train one algorithm on one task, once")
    run.set_defaults(command=_run)
    run.add_argument("task", metavar="TASK", help="see `qlrstudy tasks`")
    run.add_argument("algorithm", metavar="ALGORITHM", help="`qlrstudy algorithms`")
    run.add_argument("--seed", type=int, default=0, help="of all chance; 0")
    budget = run.add_mutually_exclusive_group()
    budget.add_argument("--epochs", type=int, help="in place of the protocol's")
    budget.add_argument("--steps", type=int, help="likewise")
    budget.add_argument("--seconds", type=float, help="likewise, of training")
    run.add_argument("--batch-size", type=int, help="examples of a step")
    run.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="hyperparameters",
    )
    run.add_argument("--hyperparameters", metavar="paper|FILE", help="FILE: JSON")
    run.add_argument("--scale", default="paper", help="paper, laptop or dry")
    run.add_argument(
        "--store", type=Path, default=Path("runs"), metavar="DIR", help="./runs"
    )
    run.add_argument(
        "--partial-data", action="store_true", help="an incomplete set will do"
    )
    run.add_argument("--json", action="store_true", help="the last line is JSON")
    _data_directory(run)

    tasks = commands.add_parser("tasks", help="what can be learnt")
    tasks.set_defaults(command=_tasks)
    algorithms = commands.add_parser("algorithms", help="what can learn it")
    algorithms.set_defaults(command=_algorithms)

    data = commands.add_parser("data", help="what is learnt from")
    actions = data.add_subparsers(required=True, metavar="ACTION")
    for name, command, text in (
        ("list", _data_list, "the sets, and what is here of them"),
        ("fetch", _data_fetch, "download sets"),
        ("verify", _data_verify, "read each file and check it"),
    ):
        action = actions.add_parser(name, help=text)
        action.set_defaults(command=command)
        if command is not _data_list:
            action.add_argument("sets", nargs="*", help="all, if none is named")
        _data_directory(action)
    return parser


def _data_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="the publishers' files; QLR_DATA, or the download cache",
    )


def _run(options: argparse.Namespace) -> int:
    run = choose(options)
    data = run.task.load(DataOptions(options.data_dir, options.partial_data))
    title = f"{run.task.title}, {run.algorithm.title}, seed {run.seed}"
    caveats = provenance.caveats(run, data)
    stopping = _stop_on_signals()
    with display.live(title) as watch:
        outcome = train(run, data, options.store, watch=watch, should_stop=stopping)
    if options.json:
        sys.stdout.write(json.dumps(_as_json(run, outcome, caveats)) + "\n")
    else:
        display.summary(title, outcome, caveats)
    return 130 if outcome.status == "interrupted" else 0


def _as_json(run: Run, outcome: Outcome, caveats: list[str]) -> dict[str, Any]:
    record = outcome.record._asdict()
    finite = {k: v if math.isfinite(v) else None for k, v in record.items()}
    return {
        "task": run.task.name,
        "algorithm": run.algorithm.name,
        "seed": run.seed,
        "scale": run.task.scale,
        "hyperparameters": provenance.hyperparameters(run),
        "status": outcome.status,
        "steps": finite.pop("step"),
        "epochs": finite.pop("epoch"),
        "compile_seconds": outcome.compile_seconds,
        **finite,
        "caveats": caveats,
        "path": str(outcome.path),
    }


def _tasks(options: argparse.Namespace) -> int:
    del options
    rows = [
        [name, task.title, scale, _budget(task.budget), str(task.adam_batch.size)]
        for name, scales in TASKS.items()
        for scale, task in scales.items()
    ]
    display.table("Tasks", ["name", "title", "scale", "budget", "Adam's batch"], rows)
    return 0


def _budget(budget: Budget) -> str:
    return f"{budget.epochs} epochs" if budget.epochs else f"{budget.steps} steps"


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


def _data_list(options: argparse.Namespace) -> int:
    rows = [
        [
            status.data_set.name,
            f"{status.present} of {len(status.data_set.files)} files",
            f"{status.size / 1e6:.1f} MB",
            status.data_set.licence,
            str(status.folder),
        ]
        for status in list_sets(DataOptions(options.data_dir))
    ]
    display.table("Data", ["set", "here", "size", "licence", "folder"], rows)
    return 0


def _data_fetch(options: argparse.Namespace) -> int:
    new = fetch_sets(options.sets, DataOptions(options.data_dir))
    for path in new:
        display.OUT.print(f"fetched {path}", highlight=False)
    if not new:
        display.OUT.print("all is here already")
    return 0


def _data_verify(options: argparse.Namespace) -> int:
    found = verify_sets(options.sets, DataOptions(options.data_dir))
    rows = [[str(file.path), file.state, file.problem] for file in found]
    display.table("Data", ["file", "state", "problem"], rows)
    return 0 if all(file.state == "complete" for file in found) else 1


def _stop_on_signals() -> Callable[[], bool]:
    """Let the first Ctrl-C, or a scheduler's SIGTERM, end the run in good order."""
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        del frame
        asked.append(number)
        signal.signal(number, signal.default_int_handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return lambda: bool(asked)


def _keep_compiled_programs() -> None:
    """Programs compiled by one command serve the next, unless JAX was told where."""
    if jax.config.values["jax_compilation_cache_dir"] is None:
        folder = Path(pooch.os_cache("qlrstudy")) / "programs" / platform.node()
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
