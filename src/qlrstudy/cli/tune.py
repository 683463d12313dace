"""`qlrstudy tune`: search an algorithm's settings by ASHA."""

from qlrstudy.cli import results
from qlrstudy.cli.options import Cluster, Place
from qlrstudy.cli.selection import selected_pair
from qlrstudy.cli.work import work
from qlrstudy.spec import Budget
from qlrstudy.studies.repetitions import identity_reader
from qlrstudy.tuning.rule import Tuned
from qlrstudy.tuning.search import Search
from qlrstudy.tuning.space import Tuning


def tune(
    task: str,
    algorithm: str,
    scale: str,
    how: Tuned,
    seconds: float | None,
    place: Place,
    cluster: Cluster,
) -> int:
    """Do the command."""
    learnt, learner = selected_pair(task, algorithm, scale)
    own = None if seconds is None else Budget("seconds", seconds)
    tuning = Tuning(learnt, learner, how, own or learnt.budget)
    search = Search(tuning, place.store, identity_reader(place.data)(learnt))
    title = f"tuning {learner.title} on {learnt.title}"
    code = work(title, search.jobs(), place, cluster, [search])
    results.tuning(search)
    return code
