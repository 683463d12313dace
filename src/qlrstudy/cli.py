"""The command line: parse arguments, make one call."""

import argparse
import json
import math
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from qlrstudy import (
    board,
    cluster,
    connection,
    display,
    estimate,
    plan,
    provenance,
    repeat,
    status,
    study,
    tune,
    tunings,
)
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.choose import choose, choose_pair, choose_study
from qlrstudy.data import DataError, fetch_sets, list_sets, verify_sets
from qlrstudy.jobs import Job
from qlrstudy.programs import keep_compiled_programs
from qlrstudy.report import command as report
from qlrstudy.spec import (
    Algorithm,
    Budget,
    Complement,
    DataOptions,
    Run,
)
from qlrstudy.store import StoreError
from qlrstudy.studies import STUDIES
from qlrstudy.tasks import TASKS
from qlrstudy.train import Outcome, train


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 for done, 2 for a mistake, 130 for an interrupted run."""
    parser = _parser()
    options = parser.parse_args(arguments)
    keep_compiled_programs()
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
    _pair(run)
    _settings_of(run)
    run.add_argument("--json", action="store_true", help="the last line is JSON")
    _store_and_data(run)

    repeat_ = commands.add_parser("repeat", help="train with many seeds, in parallel")
    repeat_.set_defaults(command=_repeat)
    _pair(repeat_)
    repeat_.add_argument("--repetitions", type=int, default=50, help="50")
    _settings_of(repeat_)
    _store_and_data(repeat_)
    _cluster(repeat_)

    tune_ = commands.add_parser("tune", help="search an algorithm's settings by ASHA")
    tune_.set_defaults(command=_tune)
    _pair(tune_)
    tune_.add_argument("--samples", type=int, default=200, help="settings tried; 200")
    tune_.add_argument(
        "--metric",
        choices=("validation_loss", "training_loss"),
        default="validation_loss",
        help="what counts; validation_loss",
    )
    tune_.add_argument(
        "--budget",
        choices=("epochs", "seconds"),
        default="seconds",
        help="what ASHA counts: seconds of training, at most 900, or epochs",
    )
    tune_.add_argument(
        "--seconds", type=float, help="of each trial, in place of the epochs"
    )
    tune_.add_argument("--seed", type=int, default=0, help="of all chance; 0")
    _store_and_data(tune_)
    _cluster(tune_)

    study_ = commands.add_parser("study", help="do a whole study; see `studies`")
    study_.set_defaults(command=_study)
    study_.add_argument("name", metavar="NAME", help="see `qlrstudy studies`")
    study_.add_argument(
        "--scale", choices=("paper", "laptop", "smoke"), default="paper", help="paper"
    )
    study_.add_argument("--tasks", nargs="+", metavar="TASK", help="only these")
    study_.add_argument("--algorithms", nargs="+", metavar="ALGORITHM", help="likewise")
    study_.add_argument("--samples", type=int, help="of each tuning")
    study_.add_argument("--repetitions", type=int, help="of each setting, at most")
    study_.add_argument(
        "--budget", choices=("epochs", "seconds"), help="what ASHA counts"
    )
    study_.add_argument(
        "--hyperparameters",
        choices=("best", "paper"),
        default="best",
        help="tune, or take the paper's; best",
    )
    study_.add_argument(
        "--dry-run", action="store_true", help="list the runs, and the time they need"
    )
    _store_and_data(study_)
    _cluster(study_)

    status_ = commands.add_parser("status", help="what a store has, and lacks")
    status_.set_defaults(command=_status)
    status_.add_argument("store", type=Path, metavar="STORE", help="a directory")

    studies = commands.add_parser("studies", help="what can be studied")
    studies.set_defaults(command=_studies)

    tasks = commands.add_parser("tasks", help="what can be learnt")
    tasks.set_defaults(command=_tasks)
    algorithms = commands.add_parser("algorithms", help="what can learn it")
    algorithms.set_defaults(command=_algorithms)

    report.add_parsers(commands)

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


def _pair(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="see `qlrstudy tasks`")
    parser.add_argument("algorithm", metavar="ALGORITHM", help="`qlrstudy algorithms`")
    parser.add_argument("--scale", default="paper", help="paper, laptop or dry")


def _settings_of(parser: argparse.ArgumentParser) -> None:
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


def _store_and_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store", type=Path, default=Path("runs"), metavar="DIR", help="./runs"
    )
    parser.add_argument(
        "--partial-data", action="store_true", help="an incomplete set will do"
    )
    _data_directory(parser)


def _cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--address", help="of a Ray cluster; this machine alone")
    parser.add_argument("--workers", type=int, help="runs at a time; what there is")
    parser.add_argument("--cores", type=float, default=1.0, help="of a run; 1")
    parser.add_argument("--accelerators", type=float, help="of a run, or a part of one")


def _data_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="the publishers' files; QLR_DATA, or the download cache",
    )


def _run(options: argparse.Namespace) -> int:
    run = choose(options)
    data = run.task.load(_data_options(options))
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


def _repeat(options: argparse.Namespace) -> int:
    run = choose(options)
    contents = study.reader(_data_options(options))(run.task)
    jobs = list(repeat.jobs(run, options.repetitions, contents))
    return _work(f"{run.task.title}, {run.algorithm.title}", jobs, options)


def _tune(options: argparse.Namespace) -> int:
    task, algorithm = choose_pair(options)
    connection.prepare(options.address)
    how = plan.Tuned(options.samples, options.metric, options.budget, seed=options.seed)
    own = None if options.seconds is None else Budget(seconds=options.seconds)
    tuning = tunings.Tuning(task, algorithm, how, own or task.budget)
    contents = study.reader(_data_options(options))(task)
    search = tune.Search(tuning, options.store, contents)
    title = f"tuning {algorithm.title} on {task.title}"
    code = _work(title, search.jobs(), options, [search])
    display.tuning(search)
    return code


def _study(options: argparse.Namespace) -> int:
    chosen = choose_study(options)
    connection.prepare(options.address)
    data = _data_options(options)
    conduct = study.Conduct(chosen, options.scale, options.store, data)
    if options.dry_run:
        display.estimate(chosen.title, estimate.lines(conduct), options.workers)
        return 0
    return _work(chosen.title, conduct.jobs(), options, conduct.searches)


def _work(
    title: str,
    jobs: list[Job],
    options: argparse.Namespace,
    searches: Sequence[tune.Search] = (),
) -> int:
    """Do jobs on a cluster; 0 for done, 1 if some failed, 130 if interrupted."""
    resources = connection.Resources(
        options.workers, options.cores, options.accelerators, options.address
    )
    stopping = _stop_on_signals()
    with board.shown(title, searches) as watch:
        endings = cluster.work(
            jobs,
            options.store,
            _data_options(options),
            resources,
            watch=watch,
            should_stop=stopping,
        )
    display.endings(title, endings)
    if stopping():
        return 130
    return 1 if any(ending.status == "failed" for _, ending in endings) else 0


def _data_options(options: argparse.Namespace) -> DataOptions:
    return DataOptions(options.data_dir, options.partial_data)


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
