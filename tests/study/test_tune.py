"""ASHA over runs: the right settings go on, and a killed tuning is taken up again."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np
import pytest

from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.cluster.jobs import Ending
from qlrstudy.cluster.worker import Worker, order
from qlrstudy.spec import Budget, DataOptions
from qlrstudy.store.runs import StoreError, mark
from qlrstudy.studies.definition import Tuned
from qlrstudy.tasks import TASKS
from qlrstudy.training.provenance import contents
from qlrstudy.tuning import space as tunings
from qlrstudy.tuning.search import Asha, Search
from qlrstudy.tuning.space import Tuning

STEPS, SAMPLES = 64, 24


def _start(key):
    del key
    return jnp.ones(1), {}


def _predict(params, inputs, state, *, training, weights=None):
    del training, weights
    return inputs * params, state


# Half the square of one number from one: after t steps of gradient descent with rate r
# the loss is (1 - r)^(2t) / 2, so that of two rates below one the larger is the better.
QUADRATIC = dataclasses.replace(
    TASKS["rosenbrock"]["paper"],
    name="quadratic",
    budget=Budget("steps", STEPS),
    init=_start,
    predict=_predict,
)
DATA = QUADRATIC.load(DataOptions())
DATA = dataclasses.replace(
    DATA,
    **{
        name: getattr(DATA, name)._replace(targets=np.zeros((1, 1), np.float32))
        for name in ("train", "validation", "test")
    },
)
QUADRATIC = dataclasses.replace(QUADRATIC, load=lambda options: DATA)


def _loss(rate: float, steps: int) -> float:
    return (1 - rate) ** (2 * steps) / 2


def _tuning(samples: int = SAMPLES) -> Tuning:
    how = Tuned(samples, resource="epochs")
    algorithm = ALGORITHMS["sgd-minimal"]
    return Tuning(QUADRATIC, algorithm, how, QUADRATIC.budget)


@pytest.fixture(scope="module", autouse=True)
def quadratic():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TASKS, "quadratic", {"paper": QUADRATIC})
        patch.setattr("qlrstudy.cluster.worker.keep_compiled_programs", lambda: None)
        yield


@pytest.fixture(scope="module")
def whole(quadratic, tmp_path_factory) -> Search:
    """A tuning that nothing came in the way of."""
    store = tmp_path_factory.mktemp("whole")
    search = _search(store)
    _work(_worker(store), search.jobs())
    return search


def _worker(store) -> Worker:
    return Worker(store, mark(store), DataOptions())


def _search(store, samples: int = SAMPLES, then=lambda best: ()) -> Search:
    return Search(_tuning(samples), store, contents(DATA), then)


def _work(worker: Worker, jobs) -> None:
    """One worker, one job after the other: what `cluster` does, without a cluster."""
    for job in jobs:
        stopped = False
        reply = worker.perform(order(job.run, job.place, job.pauses), {})
        while reply.status == "paused":
            stopped = not job.judge(reply.record)
            reply = worker.proceed(not stopped)
        assert reply.error == ""
        list(job.ended(Ending("stopped" if stopped else reply.status, reply.record)))


def _rates(search: Search) -> list[float]:
    trials = range(search.tuning.how.samples)
    return [tunings.hyperparameters(search.tuning, t)["learning_rate"] for t in trials]


def test_the_settings_that_go_on_are_those_with_the_least_known_loss(whole):
    search, rates = whole, _rates(whole)

    going = list(range(SAMPLES))
    for milestone in (1, 4, 16):
        before: list[float] = []
        on = []
        for trial in going:
            loss = _loss(rates[trial], next(s for s in range(99) if s >= milestone))
            if not before or loss <= np.percentile(before, 25):
                on.append(trial)
            before.append(loss)
        decided = {t: d for (t, m), d in search.decided.items() if m == milestone}
        assert [t for t, goes_on in decided.items() if goes_on] == on
        going = on

    winner = search.best()
    assert winner is not None
    assert winner.trial == int(np.argmax(rates))
    assert winner.loss == pytest.approx(_loss(max(rates), STEPS), rel=1e-3)
    assert search.directory.best() == {"learning_rate": max(rates)}
    finished = [t for t, end in search.ends.items() if end.event == "finished"]
    assert sorted(finished) == going


def test_a_tuning_goes_on_where_it_was_killed(whole, tmp_path):
    killed, first = _worker(tmp_path), _search(tmp_path)
    jobs = first.jobs()
    _work(killed, jobs[:10])
    reply = killed.perform(order(jobs[10].run, jobs[10].place, jobs[10].pauses), {})
    jobs[10].judge(reply.record)  # decided, and then no more
    first._lock.close()

    found: list[dict] = []
    again = _search(tmp_path, then=lambda best: found.append(dict(best)) or ())
    rest = again.jobs()
    assert len(rest) in (SAMPLES - 10, SAMPLES - 11)
    _work(_worker(tmp_path), rest)
    assert again.decided == whole.decided
    assert found == [whole.directory.best()]


def test_more_samples_add_trials_and_change_none(tmp_path):
    _work(_worker(tmp_path), _search(tmp_path, 4).jobs())
    more = _search(tmp_path, 6)
    assert len(more.jobs()) == 2


def test_one_driver_at_a_time(tmp_path):
    search = _search(tmp_path)
    search.jobs()
    with pytest.raises(StoreError, match="another process is tuning"):
        _search(tmp_path).jobs()


def test_a_diverged_trial_counts_as_the_worst_and_never_wins(tmp_path):
    worker, search = _worker(tmp_path), _search(tmp_path, 3)
    for trial, job in enumerate(search.jobs()):
        if trial == 1:
            record = search_record(job, worker)._replace(validation_loss=float("nan"))
            list(job.ended(Ending("diverged", record)))
        else:
            _work(worker, [job])
    assert search.ends[1].event == "diverged"
    assert search.best().trial != 1
    log = (search.directory.path / "log.jsonl").read_text()
    assert all(json.loads(line) for line in log.splitlines())


def search_record(job, worker):
    return worker.perform(order(job.run, job.place), {}).record


def test_asha_keeps_the_best_quarter_of_a_known_order():
    asha = Asha(1.0, 64.0)
    assert asha.milestones == [1.0, 4.0, 16.0]
    losses = np.random.default_rng(0).permutation(100).astype(float)
    on = [loss for t, loss in enumerate(losses) if asha.goes_on(t, 1.0, loss)]
    assert 0.0 in on
    assert len(on) < 40 and np.median(on) < 20


@pytest.mark.parametrize("algorithm", ["sgd-full", "adamqlr-tuned"])
def test_drawn_settings_lie_in_the_space(algorithm):
    task = TASKS["digits"]["paper"]
    tuning = Tuning(task, ALGORITHMS[algorithm], Tuned(), task.budget)
    drawn = [tunings.hyperparameters(tuning, trial) for trial in range(200)]
    assert {d["batch_size"] for d in drawn} == set(task.batch_sizes)
    for name, space in ALGORITHMS[algorithm].search.items():
        values = np.array([d[name] for d in drawn])
        values = 1 - values if type(space).__name__ == "Complement" else values
        assert (space.low <= values).all() and (values <= space.high).all()
        middle = np.sqrt(space.low * space.high)
        assert 0.4 < np.mean(values < middle) < 0.6
