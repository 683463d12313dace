"""ASHA over runs: the right settings go on, and a killed tuning is taken up again."""

import dataclasses
import json
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler

from damage import MUTATIONS
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.cli import options, progress
from qlrstudy.cli.main import main
from qlrstudy.cli.options import Cluster, Place
from qlrstudy.cli.work import work
from qlrstudy.cluster.jobs import Ending
from qlrstudy.cluster.worker import Worker, order
from qlrstudy.spec import Budget, DataOptions
from qlrstudy.store.files import NewerError, StoreError
from qlrstudy.store.manifest import Status
from qlrstudy.store.marks import mark
from qlrstudy.studies.definition import Arm
from qlrstudy.studies.expand import tuning_of
from qlrstudy.tasks import TASKS
from qlrstudy.training.provenance import data_identity
from qlrstudy.tuning import space
from qlrstudy.tuning.asha import Asha
from qlrstudy.tuning.rule import Tuned
from qlrstudy.tuning.search import Search
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
    return Search(_tuning(samples), store, data_identity(DATA), then)


def _work(worker: Worker, jobs) -> None:
    """One worker, one job after the other: what `cluster` does, without a cluster."""
    for job in jobs:
        stopped = False
        reply = worker.perform(order(job.run, job.place, job.pauses), {})
        while reply.status == "paused":
            stopped = not job.judge(reply.record)
            reply = worker.proceed(not stopped)
        assert reply.error == ""
        status = Status.STOPPED if stopped else Status(reply.status)
        list(job.ended(Ending(status, reply.record)))


def _rates(search: Search) -> list[float]:
    trials = range(search.tuning.how.samples)
    return [space.hyperparameters(search.tuning, t)["learning_rate"] for t in trials]


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
            list(job.ended(Ending(Status.DIVERGED, record)))
        else:
            _work(worker, [job])
    assert search.ends[1].event == "diverged"
    assert search.best().trial != 1
    log = (search.directory.path / "log.jsonl").read_text()
    assert all(json.loads(line) for line in log.splitlines())


def test_a_failed_trial_is_tried_again(tmp_path):
    first = _search(tmp_path, 3)
    jobs = first.jobs()
    list(jobs[1].ended(Ending(Status.FAILED, None, "no memory")))
    _work(_worker(tmp_path), [jobs[0], jobs[2]])
    assert not first.is_open()

    again = _search(tmp_path, 3)
    (job,) = again.jobs()
    assert job.trial == 1
    _work(_worker(tmp_path), [job])
    assert again.ends[1].event != "failed"
    assert _search(tmp_path, 3).jobs() == []


def test_a_search_without_a_winner_is_named_and_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(options, "stop_on_signals", lambda: lambda: False)
    search = _search(tmp_path, 2)
    for job in search.jobs():
        list(job.ended(Ending(Status.DIVERGED, None)))
    assert work("some", (), Place(store=tmp_path), Cluster(), [search]) == 1
    assert f"{search.directory.path} has no winner" in capsys.readouterr().err


def search_record(job, worker):
    return worker.perform(order(job.run, job.place), {}).record


def test_asha_keeps_the_best_quarter_of_a_known_order():
    asha = Asha(1.0, 64.0)
    assert asha.milestones == [1.0, 4.0, 16.0]
    losses = np.random.default_rng(0).permutation(100).astype(float)
    on = _go_on(asha, losses)
    assert 0.0 in losses[on]
    assert sum(on) < 40 and np.median(losses[on]) < 20


def _go_on(asha: Asha, losses) -> list[bool]:
    decided = []
    for loss in losses:
        decided.append(asha.goes_on(1.0, loss))
        asha.enter(1.0, loss)
    return decided


@given(st.lists(st.integers(-30, 30) | st.floats(-1e30, 1e30), max_size=40))
def test_asha_decides_as_rays_scheduler_does(losses):
    ray = ASHAScheduler(
        time_attr="at",
        metric="loss",
        mode="min",
        max_t=64,
        grace_period=1,
        reduction_factor=4,
    )
    theirs = []
    for number, loss in enumerate(losses):
        trial = Trial("trial", stub=True, trial_id=str(number))
        ray.on_trial_add(None, trial)
        result = {"at": 1.0, "loss": loss}
        theirs.append(ray.on_trial_result(None, trial, result) == ray.CONTINUE)
    assert _go_on(Asha(1.0, 64.0), losses) == theirs


def test_a_search_goes_on_from_what_is_left_of_its_log(whole, tmp_path):
    """After a line that was cut in the middle, the next decision is not lost too."""
    first = _search(tmp_path)
    _work(_worker(tmp_path), first.jobs()[:10])
    first._lock.close()
    path = first.directory.path / "log.jsonl"
    path.write_bytes(path.read_bytes()[:-9])

    again = _search(tmp_path)
    jobs = again.jobs()
    _work(_worker(tmp_path), jobs)
    assert not again.damage
    assert again.decided == whole.decided
    assert again.directory.best() == whole.directory.best()
    log, damage = again.directory.log()
    assert not damage
    assert {e.trial for e in log if e.milestone is None} == set(range(SAMPLES))


def test_a_search_goes_on_without_a_damaged_line(tmp_path):
    first = _search(tmp_path)
    _work(_worker(tmp_path), first.jobs()[:10])
    first._lock.close()
    path = first.directory.path / "log.jsonl"
    lines = path.read_bytes().splitlines()
    lines[3] = b"\x00" + lines[3][:7]
    path.write_bytes(b"\n".join(lines) + b"\n")

    again = _search(tmp_path)
    _work(_worker(tmp_path), again.jobs())
    assert "log.jsonl: line 4" in str(again.damage[0])
    assert again.directory.best() is not None


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A search that was killed half-way, and the same one at its end."""
    store = tmp_path_factory.mktemp("tuned") / "half"
    first = _search(store, 6)
    jobs = first.jobs()
    _work(_worker(store), jobs[:3])
    first._lock.close()
    ended = shutil.copytree(store, store.with_name("ended"))
    search = _search(ended, 6)
    _work(_worker(ended), search.jobs())
    return {"half": store, "ended": ended}, search.directory.best()


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize(
    ("when", "name"),
    [
        ("half", "log.jsonl"),
        ("ended", "log.jsonl"),
        ("half", "tuning.json"),
        ("ended", "best.json"),
    ],
)
def test_a_search_survives_damage(tuned, tmp_path, when, name, mutation):
    stores, best = tuned
    store = shutil.copytree(stores[when], tmp_path / "store")
    (path,) = store.glob(f"tunings/*/{name}")
    generator = np.random.default_rng(len(mutation))
    hurt = MUTATIONS[mutation](path.read_bytes(), generator)
    path.write_bytes(hurt)
    again = _search(store, 6)
    try:
        _work(_worker(store), again.jobs())
    except NewerError as error:
        assert mutation == "later schema" and path == error.path
        assert path.read_bytes() == hurt
        return
    finally:
        again._lock.close()
    assert mutation != "later schema"
    assert again.directory.best() == best
    assert again.directory.identity() == again.identity
    ends = [entry for entry in again.directory.log().values if entry.milestone is None]
    assert {entry.trial for entry in ends} == set(range(6))
    assert all(damage.path == path for damage in again.damage)
    if mutation in ("garbage", "wrong type") and name == "log.jsonl":
        assert again.damage


@pytest.mark.parametrize("algorithm", ["sgd-full", "adamqlr-tuned"])
def test_drawn_settings_lie_in_the_space(algorithm):
    task = TASKS["digits"]["paper"]
    tuning = Tuning(task, ALGORITHMS[algorithm], Tuned(), task.budget)
    drawn = [space.hyperparameters(tuning, trial) for trial in range(200)]
    assert {d["batch_size"] for d in drawn} == set(task.batch_sizes)
    for name, bounds in ALGORITHMS[algorithm].search.items():
        values = np.array([d[name] for d in drawn])
        values = 1 - values if type(bounds).__name__ == "Complement" else values
        assert (bounds.low <= values).all() and (values <= bounds.high).all()
        middle = np.sqrt(bounds.low * bounds.high)
        assert 0.4 < np.mean(values < middle) < 0.6


def test_a_trial_has_one_number_in_the_log_and_in_the_result(tmp_path):
    jobs = _search(tmp_path).jobs()
    assert [job.trial for job in jobs] == list(range(SAMPLES))
    assert progress.describe(jobs[3]) == "quadratic sgd-minimal trial 3"


@pytest.mark.parametrize("algorithm", ["sgd-minimal", "sgd-full", "adam"])
def test_penn_treebank_is_tuned_in_a_range_of_its_own(algorithm):
    task = TASKS["penn-treebank"]["paper"]
    tuning = Tuning(task, ALGORITHMS[algorithm], Tuned(), task.budget)
    trials = [space.hyperparameters(tuning, trial) for trial in range(200)]
    rates = [trial["learning_rate"] for trial in trials]
    assert 1e-4 <= min(rates) < 2e-4 and 50 < max(rates) <= 1e2
    assert space.trial_run(tuning, 7).settings["learning_rate"] == rates[7]


def test_a_tuning_of_nothing_is_refused(tmp_path, capsys):
    given = ["tune", "rosenbrock", "adamqlr", "--store", str(tmp_path)]
    assert main(given) == 2
    assert "nothing to tune: algorithm 'adamqlr'" in capsys.readouterr().err
    assert tuning_of(Arm("rosenbrock", "adamqlr", Tuned())) is None
