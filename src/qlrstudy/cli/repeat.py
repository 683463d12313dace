"""`qlrstudy repeat`: train with many seeds, in parallel."""

from qlrstudy.cli.options import Cluster, Place, Settings
from qlrstudy.cli.selection import selected_run
from qlrstudy.cli.work import work
from qlrstudy.studies.repetitions import identity_reader, repetitions


def repeat(
    task: str,
    algorithm: str,
    count: int,
    settings: Settings,
    place: Place,
    cluster: Cluster,
) -> int:
    """Do the command."""
    run = selected_run(task, algorithm, settings, place.store)
    data = identity_reader(place.data)(run.task)
    jobs = repetitions(run, count, data)
    return work(f"{run.task.title}, {run.algorithm.title}", jobs, place, cluster)
