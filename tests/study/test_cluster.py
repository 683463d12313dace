"""Work on a real Ray of two nodes: what dies, and what is lost by it (nothing)."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # loopback; before Ray is loaded

from qlrstudy.algorithms import ALGORITHMS  # noqa: E402
from qlrstudy.cluster import driver  # noqa: E402
from qlrstudy.cluster.connection import Resources, connected, environment, prepare  # noqa: E402
from qlrstudy.cluster.jobs import Job, Queue  # noqa: E402
from qlrstudy.cluster.workers import capacity  # noqa: E402
from qlrstudy.spec import Budget, DataOptions  # noqa: E402
from qlrstudy.store.runs import RunDirectory, read_runs  # noqa: E402
from qlrstudy.studies.repetitions import repetitions  # noqa: E402
from qlrstudy.tasks import TASKS  # noqa: E402
from qlrstudy.training.provenance import data_identity, identity  # noqa: E402
from qlrstudy.training.resolve import run_with  # noqa: E402

# Earlier tests have used JAX in this process, which a command's driver does not.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork")

DIGITS = TASKS["digits"]["paper"]
DATA = data_identity(DIGITS.load(DataOptions()))
COUNT, STEPS = 3, 20_000  # long enough for two to be seen at work
RUN = run_with(
    DIGITS,
    ALGORITHMS["sgd-minimal"],
    {"batch_size": 200, "learning_rate": 0.001},
    0,
    Budget("steps", STEPS),
)
SAME_RUN = [
    *("digits", "sgd-minimal", "--batch-size", "200", "--set", "learning_rate=0.001"),
    *("--steps", str(STEPS), "--repetitions", str(COUNT)),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Of all workers: where they keep programs, and runs to be collected."""
    path = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(path))
        patch.delenv("XLA_FLAGS")  # Workers compute more than they compile.
        yield path


@pytest.fixture(scope="module")
def ray_cluster(cache):
    prepare(None)
    from ray.cluster_utils import Cluster

    quick = {"health_check_period_ms": 500, "health_check_failure_threshold": 2}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": quick}
    made = Cluster(initialize_head=True, head_node_args=head)
    yield made
    made.shutdown()


def _jobs(count: int = COUNT) -> list[Job]:
    return repetitions(RUN, count, DATA)


def _results(store) -> dict[str, float]:
    return {
        path.name: manifest.last["test_loss"]
        for path, manifest in read_runs(store).manifests.items()
        if manifest.status == "finished"
    }


@pytest.fixture(scope="module")
def results(ray_cluster, tmp_path_factory):
    """Of a study during which one of two nodes is killed."""
    store = tmp_path_factory.mktemp("node-killed")
    doomed = ray_cluster.add_node(num_cpus=1)
    killed = []

    def watch(snapshot):
        at_work = [job for job in snapshot.running if job.progress is not None]
        if not killed and len(at_work) == 2:
            killed.append(doomed)
            ray_cluster.remove_node(doomed, allow_graceful=False)

    resources = Resources(address=ray_cluster.address)
    ended = driver.work(_jobs(), store, DataOptions(), resources, watch=watch)
    assert killed
    assert sorted(job.run.seed for job, _ in ended) == list(range(COUNT))
    assert {ending.status for _, ending in ended} == {"finished"}
    return _results(store)


def test_a_killed_node_loses_no_run(results):
    assert len(results) == COUNT


@pytest.fixture
def killed(ray_cluster, results, tmp_path):
    """The store of a driver that was killed after its first run."""
    command = [sys.executable, "-m", "qlrstudy", "repeat", *SAME_RUN]
    command += ["--store", str(tmp_path), "--address", ray_cluster.address]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not _results(tmp_path):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return tmp_path


@pytest.fixture
def unseen(killed):
    """The same store under a name that means it in this process alone."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("no /proc, whose self is another directory in each process")
    number = os.open(killed, os.O_DIRECTORY)
    os.dup2(number, 800)  # which no worker has open
    yield Path("/proc/self/fd/800")
    os.close(number)
    os.close(800)


def test_a_killed_driver_leaves_the_rest_to_workers_that_do_not_see_its_store(
    ray_cluster, cache, results, unseen
):
    before = {name: _written(unseen, name) for name in _results(unseen)}
    assert 0 < len(before) < COUNT
    elsewhere = dataclasses.replace(RUN, task=TASKS["uci-energy"]["paper"])
    lost = Job(elsewhere, "lost", identity(elsewhere, DATA), "lost")
    resources = Resources(address=ray_cluster.address)
    options = DataOptions(directory=unseen / "nowhere")
    seen = []
    stopped = driver.work(
        _jobs(),
        unseen,
        options,
        resources,
        watch=lambda now: seen.extend(job for job in now.running if job.progress),
        should_stop=lambda: bool(seen),
    )
    assert "interrupted" in [ending.status for _, ending in stopped]
    (collected,) = cache.glob("qlrstudy/collected/*")
    assert not [*collected.iterdir()]  # the next worker has them from the driver

    ended = driver.work([*_jobs(), lost], unseen, options, resources)
    statuses = {job.place: ending.status for job, ending in ended}
    failed = RunDirectory(unseen / "lost").manifest()
    assert statuses.pop("lost") == "failed"
    assert failed is not None and "nowhere" in (failed.error or "")
    assert lost.attempts == driver.ATTEMPTS
    assert set(statuses.values()) == {"finished"}
    assert _results(unseen) == results
    assert before == {name: _written(unseen, name) for name in before}
    assert all(len(RunDirectory(unseen / n).steps().loss) == STEPS for n in results)
    assert not [*collected.iterdir()]


def _written(store, name: str) -> int:
    return (store / name / "manifest.json").stat().st_mtime_ns


def test_two_runs_share_one_accelerator(ray_cluster, tmp_path):
    # Ray counts it, though there is none: where a run computes is JAX's to say.
    node = ray_cluster.add_node(num_cpus=2, num_gpus=1)
    half = Resources(address=ray_cluster.address, accelerators=0.5)
    with connected(ray_cluster.address):
        assert capacity(half) == 2  # of three cores
        assert capacity(half._replace(accelerators=None)) == 1
        assert capacity(half._replace(accelerators=0.0)) == 3
    ((_, ending),) = driver.work(_jobs(1), tmp_path, DataOptions(), half)
    ray_cluster.remove_node(node)
    assert ending.status == "finished"


def test_a_part_of_an_accelerator_is_a_part_of_its_memory():
    assert environment(1, 0.5)["XLA_CLIENT_MEM_FRACTION"] == "0.375"
    assert "XLA_CLIENT_MEM_FRACTION" not in environment(1, 1.0)


def test_a_worker_keeps_to_its_group_then_takes_what_no_other_has():
    queue = Queue()
    for name in ("a1", "b1", "b2", "c1"):
        queue.add(Job(RUN, name, identity(RUN, DATA), name[0]))
    took = [queue.take("b", {"a"}, 0.0) for _ in range(4)]
    assert [job.place for job in took if job] == ["b1", "b2", "c1", "a1"]
    assert queue.take("b", set(), 0.0) is None
