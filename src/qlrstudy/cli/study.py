"""`qlrstudy study`: do a whole study, or say what it would take."""

from qlrstudy.cli import console, results
from qlrstudy.cli.options import Changes, Cluster, Place
from qlrstudy.cli.selection import selected_study
from qlrstudy.cli.work import work
from qlrstudy.studies import estimate
from qlrstudy.studies.expand import Expansion
from qlrstudy.studies.repetitions import identity_reader
from qlrstudy.studies.scales import Scale


def study(
    name: str,
    scale: Scale,
    changes: Changes,
    place: Place,
    cluster: Cluster,
    *,
    dry_run: bool,
) -> int:
    """Do the command."""
    chosen = selected_study(name, scale, changes)
    known = estimate.known_data(place.store) if dry_run else identity_reader(place.data)
    expansion = Expansion(chosen, scale, place.store, known)
    if dry_run:
        results.costs(chosen.title, estimate.lines(expansion), cluster.workers)
        if place.partial_data:
            results.taken_for_whole(estimate.unread(chosen, known))
        code = 0
    else:
        jobs = expansion.jobs()
        code = work(chosen.title, jobs, place, cluster, expansion.searches)
    for damage in expansion.damage:
        console.say(f"left out: {damage}")
    return code
