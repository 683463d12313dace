"""`qlrstudy study`: do a whole study, or say what it would take."""

from qlrstudy.cli import results
from qlrstudy.cli.options import Changes, Cluster, Place
from qlrstudy.cli.selection import selected_study
from qlrstudy.cli.work import work
from qlrstudy.studies import estimate
from qlrstudy.studies.expand import Expansion
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
    expansion = Expansion(chosen, scale, place.store, place.data)
    if dry_run:
        results.costs(chosen.title, estimate.lines(expansion), cluster.workers)
        return 0
    return work(chosen.title, expansion.jobs(), place, cluster, expansion.searches)
