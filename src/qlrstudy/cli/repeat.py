"""`qlrstudy repeat`: train with many seeds, in parallel."""

import argparse

from qlrstudy.cli import options as given
from qlrstudy.cli.selection import selected_run
from qlrstudy.cli.work import work
from qlrstudy.studies.repetitions import identity_reader, repetitions


def repeat(options: argparse.Namespace) -> int:
    """Do the command."""
    run = selected_run(options)
    data = identity_reader(given.data_options(options))(run.task)
    jobs = repetitions(run, options.repetitions, data)
    return work(f"{run.task.title}, {run.algorithm.title}", jobs, options)
