"""`qlrstudy repeat`, `tune` and `study`: many runs, on the workers of a Ray."""

import argparse
from collections.abc import Sequence
from typing import Any

from qlrstudy.cli import display
from qlrstudy.cli import options as arguments
from qlrstudy.cli import progress as board
from qlrstudy.cli.selection import choose, choose_pair, choose_study
from qlrstudy.cluster import connection
from qlrstudy.cluster import driver as cluster
from qlrstudy.cluster.jobs import Job
from qlrstudy.spec import Budget
from qlrstudy.studies import definition as plan
from qlrstudy.studies import estimate
from qlrstudy.studies import expand as study
from qlrstudy.studies import repetitions as repeat
from qlrstudy.tuning import search as tune
from qlrstudy.tuning import space as tunings


def add_parsers(commands: Any) -> None:
    """Add the commands to a parser's subcommands."""
    _add_repeat(commands)
    _add_tune(commands)
    _add_study(commands)


def _add_repeat(commands: Any) -> None:
    repeat_ = commands.add_parser("repeat", help="train with many seeds, in parallel")
    repeat_.set_defaults(command=_repeat)
    arguments.pair(repeat_)
    repeat_.add_argument("--repetitions", type=int, default=50, help="50")
    arguments.settings(repeat_)
    arguments.store_and_data(repeat_)
    arguments.cluster(repeat_)


def _add_tune(commands: Any) -> None:
    tune_ = commands.add_parser("tune", help="search an algorithm's settings by ASHA")
    tune_.set_defaults(command=_tune)
    arguments.pair(tune_)
    tune_.add_argument("--samples", type=int, default=200, help="settings tried; 200")
    tune_.add_argument(
        "--metric",
        choices=("validation_loss", "training_loss"),
        default="validation_loss",
        help="what counts; validation_loss",
    )
    tune_.add_argument(
        "--resource",
        choices=("epochs", "seconds"),
        default="seconds",
        help="what ASHA counts: seconds of training, at most 900, or epochs",
    )
    tune_.add_argument(
        "--seconds", type=float, help="of each trial, in place of the epochs"
    )
    tune_.add_argument("--seed", type=int, default=0, help="of all chance; 0")
    arguments.store_and_data(tune_)
    arguments.cluster(tune_)


def _add_study(commands: Any) -> None:
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
        "--resource", choices=("epochs", "seconds"), help="what ASHA counts"
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
    arguments.store_and_data(study_)
    arguments.cluster(study_)


def _repeat(options: argparse.Namespace) -> int:
    run = choose(options)
    contents = study.reader(arguments.data_options(options))(run.task)
    jobs = list(repeat.jobs(run, options.repetitions, contents))
    return _work(f"{run.task.title}, {run.algorithm.title}", jobs, options)


def _tune(options: argparse.Namespace) -> int:
    task, algorithm = choose_pair(options)
    connection.prepare(options.address)
    how = plan.Tuned(
        options.samples, options.metric, options.resource, seed=options.seed
    )
    own = None if options.seconds is None else Budget("seconds", options.seconds)
    tuning = tunings.Tuning(task, algorithm, how, own or task.budget)
    contents = study.reader(arguments.data_options(options))(task)
    search = tune.Search(tuning, options.store, contents)
    title = f"tuning {algorithm.title} on {task.title}"
    code = _work(title, search.jobs(), options, [search])
    display.tuning(search)
    return code


def _study(options: argparse.Namespace) -> int:
    chosen = choose_study(options)
    connection.prepare(options.address)
    data = arguments.data_options(options)
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
    stopping = arguments.stop_on_signals()
    with board.shown(title, searches) as watch:
        endings = cluster.work(
            jobs,
            options.store,
            arguments.data_options(options),
            resources,
            watch=watch,
            should_stop=stopping,
        )
    display.endings(title, endings)
    if stopping():
        return 130
    return 1 if any(ending.status == "failed" for _, ending in endings) else 0
