"""Work on a real Ray of two nodes: what dies, and what is lost by it (nothing)."""

import dataclasses
import os
import signal
import subprocess
import sys
import time

import pytest

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # loopback; before Ray is loaded

from qlrstudy import cluster, repeat  # noqa: E402
from qlrstudy.algorithms import ALGORITHMS  # noqa: E402
from qlrstudy.connection import Resources, prepare  # noqa: E402
from qlrstudy.jobs import Job, Queue  # noqa: E402
from qlrstudy.provenance import contents  # noqa: E402
from qlrstudy.settings import run_with  # noqa: E402
from qlrstudy.spec import Budget, DataOptions  # noqa: E402
from qlrstudy.store import RunDirectory, mark, runs  # noqa: E402
from qlrstudy.tasks import TASKS  # noqa: E402
from qlrstudy.worker import Worker, order  # noqa: E402

# Earlier tests have used JAX in this process, which a command's driver does not.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork")

DIGITS = TASKS["digits"]["paper"]
COUNT, STEPS = 4, 4000
RUN = run_with(
    DIGITS,
    ALGORITHMS["sgd-minimal"],
    {"batch_size": 200, "learning_rate": 0.001},
    0,
    Budget(steps=STEPS),
)
SAME_RUN = [
    *("digits", "sgd-minimal", "--batch-size", "200", "--set", "learning_rate=0.001"),
    *("--steps", str(STEPS), "--repetitions", str(COUNT)),
]


@pytest.fixture(scope="module")
def ray_cluster():
    prepare(None)
    from ray.cluster_utils import Cluster

    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 2}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": quick}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    made.shutdown()


def _jobs(count: int = COUNT) -> list[Job]:
    return list(repeat.jobs(RUN, count, contents(DIGITS.load(DataOptions()))))


def _results(store) -> dict[str, float]:
    return {
        path.name: manifest["last"]["test_loss"]
        for path, manifest in runs(store)
        if manifest["status"] == "finished"
    }


@pytest.fixture(scope="module")
def results(ray_cluster, tmp_path_factory):
    """Of a study during which one of two nodes is killed."""
    store = tmp_path_factory.mktemp("node-killed")
    doomed = ray_cluster.add_node(num_cpus=1)
    killed = []

    def watch(board):
        at_work = [seat for seat in board.running if seat.progress is not None]
        if not killed and len(at_work) == 2:
            killed.append(doomed)
            ray_cluster.remove_node(doomed, allow_graceful=False)

    resources = Resources(address=ray_cluster.address)
    ended = cluster.work(_jobs(), store, DataOptions(), resources, watch=watch)
    assert killed
    assert sorted(job.run.seed for job, _ in ended) == list(range(COUNT))
    assert {ending.status for _, ending in ended} == {"finished"}
    return _results(store)


def test_a_killed_node_loses_no_run(results):
    assert len(results) == COUNT


def _repeat(store, address: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "qlrstudy", "repeat", *SAME_RUN]
    command += ["--store", str(store), "--address", address]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def test_a_killed_driver_leaves_the_rest_to_the_next(ray_cluster, results, tmp_path):
    driver = _repeat(tmp_path, ray_cluster.address)
    deadline = time.monotonic() + 120
    while not _results(tmp_path):
        assert driver.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    before = {name: _written(tmp_path, name) for name in _results(tmp_path)}
    assert 0 < len(before) < COUNT

    assert _repeat(tmp_path, ray_cluster.address).wait(timeout=120) == 0
    assert _results(tmp_path) == results
    assert before == {name: _written(tmp_path, name) for name in before}


def _written(store, name: str) -> int:
    return (store / name / "manifest.json").stat().st_mtime_ns


def test_stopped_work_is_kept_and_what_fails_is_told(ray_cluster, results, tmp_path):
    energy = TASKS["uci-energy"]["paper"]
    lost = Job(
        dataclasses.replace(RUN, task=energy),
        "lost",
        {"task": "uci-energy", "algorithm": "sgd-minimal"},
        "lost",
    )
    resources = Resources(address=ray_cluster.address)
    options = DataOptions(directory=tmp_path / "nowhere")
    seen = []
    ended = cluster.work(
        [*_jobs(2), lost],
        tmp_path,
        options,
        resources,
        watch=lambda board: seen.extend(s for s in board.running if s.progress),
        should_stop=lambda: bool(seen),
    )
    assert [ending.status for _, ending in ended] == ["interrupted"]

    ended = cluster.work([*_jobs(2), lost], tmp_path, options, resources)
    statuses = {job.place: ending.status for job, ending in ended}
    failed = RunDirectory(tmp_path / "lost").manifest()
    assert statuses.pop("lost") == "failed"
    assert failed is not None and "nowhere" in failed["error"]
    assert lost.attempts == cluster.ATTEMPTS
    assert set(statuses.values()) == {"finished"}
    assert all(results[place] == loss for place, loss in _results(tmp_path).items())


def test_a_store_that_cannot_be_seen_is_sent_the_files(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("qlrstudy.worker.keep_compiled_programs", lambda: None)
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    worker = Worker(elsewhere, mark(here), DataOptions())
    assert not worker.shares_store()
    (job,) = _jobs(1)
    reply = worker.perform(order(job.run, job.place), {})
    directory = RunDirectory(here / job.place)
    directory.adopt(reply.files)
    assert not elsewhere.exists()
    assert directory.records()[-1].test_loss == reply.record.test_loss
    assert len(directory.steps().loss) == STEPS


def test_a_worker_keeps_to_its_group_then_takes_what_no_other_has():
    queue = Queue()
    jobs = {name: Job(RUN, name, {}, name[0]) for name in ("a1", "b1", "b2", "c1")}
    for job in jobs.values():
        queue.add(job)
    took = [queue.take("b", {"a"}, 0.0) for _ in range(4)]
    assert [job.place for job in took if job] == ["b1", "b2", "c1", "a1"]
    assert queue.take("b", set(), 0.0) is None
