"""The command line: parse arguments, make one call."""

import argparse

from qlrstudy.cli import archives, data, display, lists, many_runs, one_run, report
from qlrstudy.data import DataError
from qlrstudy.store.runs import StoreError
from qlrstudy.training.compilation_cache import keep_compiled_programs


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
    for group in (one_run, many_runs, lists, report, archives, data):
        group.add_parsers(commands)
    return parser
