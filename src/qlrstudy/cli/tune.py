"""`qlrstudy tune`: search an algorithm's settings by ASHA."""

import argparse

from qlrstudy.cli import options as given
from qlrstudy.cli import results
from qlrstudy.cli.selection import selected_pair
from qlrstudy.cli.work import work
from qlrstudy.spec import Budget
from qlrstudy.studies.repetitions import identity_reader
from qlrstudy.tuning.rule import Tuned
from qlrstudy.tuning.search import Search
from qlrstudy.tuning.space import Tuning


def tune(options: argparse.Namespace) -> int:
    """Do the command."""
    task, algorithm = selected_pair(options)
    how = Tuned(options.samples, options.metric, options.resource, seed=options.seed)
    own = None if options.seconds is None else Budget("seconds", options.seconds)
    tuning = Tuning(task, algorithm, how, own or task.budget)
    data = identity_reader(given.data_options(options))(task)
    search = Search(tuning, options.store, data)
    title = f"tuning {algorithm.title} on {task.title}"
    code = work(title, search.jobs(), options, [search])
    results.tuning(search)
    return code
