"""The command line: parse arguments, make one call, say what went wrong."""

import argparse
import os
from collections.abc import Callable

from qlrstudy.cli import console
from qlrstudy.cli.parser import parser
from qlrstudy.data.errors import DataError
from qlrstudy.store.files import StoreError


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 0 for done, 1 if not all was, 2 for a mistake, 130 interrupted."""
    options = parser().parse_args(arguments)
    # XLA, which looks only as it is loaded, warns of each program out of the cache.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        return _handler(options.command)(options)
    except (ValueError, DataError, StoreError) as error:
        console.say(f"qlrstudy: error: {error}")
        return 2


def _handler(name: str) -> Callable[[argparse.Namespace], int]:
    """A command's function; what it needs is loaded here and for it alone."""
    match name:
        case "run":
            from qlrstudy.cli.run import run as handler
        case "repeat":
            from qlrstudy.cli.repeat import repeat as handler
        case "tune":
            from qlrstudy.cli.tune import tune as handler
        case "study":
            from qlrstudy.cli.study import study as handler
        case "status":
            from qlrstudy.cli.status import status as handler
        case "studies":
            from qlrstudy.cli.lists import studies as handler
        case "tasks":
            from qlrstudy.cli.lists import tasks as handler
        case "algorithms":
            from qlrstudy.cli.lists import algorithms as handler
        case "pack":
            from qlrstudy.cli.pack import pack as handler
        case "unpack":
            from qlrstudy.cli.pack import unpack as handler
        case "report":
            from qlrstudy.cli.report import report as handler
        case "export":
            from qlrstudy.cli.report import export as handler
        case "data":
            from qlrstudy.cli.data import data as handler
        case _:
            raise AssertionError(f"the parser knows a command {name!r}")
    return handler
