"""`qlrstudy study`: do a whole study, or say what it would take."""

import argparse

from qlrstudy.cli import options as given
from qlrstudy.cli import results
from qlrstudy.cli.selection import selected_study
from qlrstudy.cli.work import work
from qlrstudy.studies import estimate
from qlrstudy.studies.expand import Expansion


def study(options: argparse.Namespace) -> int:
    """Do the command."""
    chosen = selected_study(options)
    data = given.data_options(options)
    expansion = Expansion(chosen, options.scale, options.store, data)
    if options.dry_run:
        results.costs(chosen.title, estimate.lines(expansion), options.workers)
        return 0
    return work(chosen.title, expansion.jobs(), options, expansion.searches)
