"""Jobs of a command on the workers of a Ray, shown while they go and at their end."""

import argparse
from collections.abc import Iterable, Sequence

from qlrstudy.cli import console, progress, results
from qlrstudy.cli import options as given
from qlrstudy.cluster import driver
from qlrstudy.cluster.connection import Resources
from qlrstudy.cluster.jobs import Job
from qlrstudy.store.manifest import Status
from qlrstudy.tuning.search import Search


def work(
    title: str,
    jobs: Iterable[Job],
    options: argparse.Namespace,
    searches: Sequence[Search] = (),
) -> int:
    """Do jobs on a cluster; 0 for done, 1 if some failed, 130 if interrupted."""
    for damage in (damage for search in searches for damage in search.damage):
        console.say(f"{damage}; the search goes on without it")
    resources = Resources(
        options.workers, options.cores, options.accelerators, options.address
    )
    stopping = given.stop_on_signals()
    with progress.many_runs(title, searches) as watch:
        endings = driver.work(
            jobs,
            options.store,
            given.data_options(options),
            resources,
            watch=watch,
            should_stop=stopping,
        )
    results.endings(title, endings)
    if stopping():
        return 130
    return 1 if any(ending.status == Status.FAILED for _, ending in endings) else 0
