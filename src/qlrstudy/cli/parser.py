"""All commands and their arguments. Nothing else is loaded to parse them."""

import argparse
from pathlib import Path
from typing import Any

from qlrstudy.cli import options


def parser() -> argparse.ArgumentParser:
    """The command line's; `command` in its result names the command."""
    made = argparse.ArgumentParser("qlrstudy", description="AdamQLR's experiments.")
    commands = made.add_subparsers(required=True, metavar="COMMAND", dest="command")
    _add_runs(commands)
    _add_study(commands)
    _add_lists(commands)
    _add_report(commands)
    _add_archives(commands)
    _add_data(commands)
    return made


def _add_runs(commands: Any) -> None:
    run = commands.add_parser("run", help="train one algorithm on one task, once")
    options.pair(run)
    options.settings(run)
    run.add_argument("--json", action="store_true", help="the last line is JSON")
    options.store_and_data(run)

    repeat = commands.add_parser("repeat", help="train with many seeds, in parallel")
    options.pair(repeat)
    repeat.add_argument("--repetitions", type=int, default=50, help="50")
    options.settings(repeat)
    options.store_and_data(repeat)
    options.cluster(repeat)

    tune = commands.add_parser("tune", help="search an algorithm's settings by ASHA")
    options.pair(tune)
    tune.add_argument("--samples", type=int, default=200, help="settings tried; 200")
    tune.add_argument(
        "--metric",
        choices=("validation_loss", "training_loss"),
        default="validation_loss",
        help="what counts; validation_loss",
    )
    tune.add_argument(
        "--resource",
        choices=("epochs", "seconds"),
        default="seconds",
        help="what ASHA counts: seconds of training, at most 900, or epochs",
    )
    tune.add_argument(
        "--seconds", type=float, help="of each trial, in place of the epochs"
    )
    tune.add_argument("--seed", type=int, default=0, help="of all chance; 0")
    options.store_and_data(tune)
    options.cluster(tune)


def _add_study(commands: Any) -> None:
    study = commands.add_parser("study", help="do a whole study; see `studies`")
    study.add_argument("name", metavar="NAME", help="see `qlrstudy studies`")
    study.add_argument(
        "--scale", choices=("paper", "laptop", "smoke"), default="paper", help="paper"
    )
    study.add_argument("--tasks", nargs="+", metavar="TASK", help="only these")
    study.add_argument("--algorithms", nargs="+", metavar="ALGORITHM", help="likewise")
    study.add_argument("--samples", type=int, help="of each tuning")
    study.add_argument("--repetitions", type=int, help="of each setting, at most")
    study.add_argument(
        "--resource", choices=("epochs", "seconds"), help="what ASHA counts"
    )
    study.add_argument(
        "--hyperparameters",
        choices=("best", "paper"),
        default="best",
        help="tune, or take the paper's; best",
    )
    study.add_argument(
        "--dry-run", action="store_true", help="list the runs, and the time they need"
    )
    options.store_and_data(study)
    options.cluster(study)


def _add_lists(commands: Any) -> None:
    status = commands.add_parser("status", help="what a store has, and lacks")
    status.add_argument("store", type=Path, metavar="STORE", help="a directory")
    commands.add_parser("studies", help="what can be studied")
    commands.add_parser("tasks", help="what can be learnt")
    commands.add_parser("algorithms", help="what can learn it")


def _add_report(commands: Any) -> None:
    report = commands.add_parser(
        "report", help="a store's tables and figures, and a page to look at"
    )
    report.add_argument("store", type=Path, metavar="STORE", help="only read")
    report.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("report"),
        metavar="DIR",
        help="what is there is replaced; ./report",
    )
    report.add_argument(
        "--figures",
        choices=["none", "svg", "all"],
        default="all",
        help="write figures not at all, as SVG, or as SVG, PDF and PNG (default); "
        "PDF and PNG take most of a report's time",
    )
    export = commands.add_parser("export", help="a store for another program")
    formats = export.add_subparsers(required=True, metavar="FORMAT")
    tensorboard = formats.add_parser("tensorboard", help="event files, one for a run")
    tensorboard.add_argument("store", type=Path, metavar="STORE", help="only read")
    tensorboard.add_argument("directory", type=Path, metavar="DIR")


def _add_archives(commands: Any) -> None:
    pack = commands.add_parser("pack", help="a store's results as one small file")
    pack.add_argument("store", type=Path, metavar="STORE", help="only read")
    pack.add_argument("file", type=Path, metavar="FILE", help="to be written")
    unpack = commands.add_parser("unpack", help="a store of such a file, to report on")
    unpack.add_argument("file", type=Path, metavar="FILE", help="only read")
    unpack.add_argument("store", type=Path, metavar="STORE", help="a directory")


def _add_data(commands: Any) -> None:
    data = commands.add_parser("data", help="what is learnt from")
    actions = data.add_subparsers(required=True, metavar="ACTION", dest="action")
    every = actions.add_parser("list", help="the sets, and what is here of them")
    fetch = actions.add_parser("fetch", help="download sets")
    verify = actions.add_parser("verify", help="read each file and check it")
    for action in (fetch, verify):
        action.add_argument("sets", nargs="*", help="all, if none is named")
    for action in (every, fetch, verify):
        options.data_directory(action)
