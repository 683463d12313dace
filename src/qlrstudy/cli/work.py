"""Jobs of a command on the workers of a Ray, shown while they go and at their end."""

from collections.abc import Iterable, Sequence

from qlrstudy.cli import console, options, progress, results
from qlrstudy.cli.options import Cluster, Place
from qlrstudy.cluster import driver
from qlrstudy.cluster.jobs import Job
from qlrstudy.store.manifest import Status
from qlrstudy.tuning.search import Search


def work(
    title: str,
    jobs: Iterable[Job],
    place: Place,
    cluster: Cluster,
    searches: Sequence[Search] = (),
) -> int:
    """Do jobs on a cluster.

    Returns:
        0 for done, 1 if some failed or a search has no winner, 130 if interrupted.
    """
    for damage in (damage for search in searches for damage in search.damage):
        console.say(f"{damage}; the search goes on without it")
    stopping = options.stop_on_signals()
    with progress.many_runs(title, searches) as watch:
        endings = driver.work(
            jobs,
            place.store,
            place.data,
            cluster.resources,
            watch=watch,
            should_stop=stopping,
        )
    results.endings(title, endings)
    if stopping():
        console.say("interrupted: the same command goes on where this one was")
        return 130
    lost = [s for s in searches if not s.is_open() and s.best() is None]
    for search in lost:
        console.say(
            f"{search.directory.path} has no winner, and nothing follows from it: no "
            "trial came to the end of its budget; more --samples may find one that does"
        )
    failed = any(ending.status == Status.FAILED for _, ending in endings)
    return 1 if failed or lost else 0
