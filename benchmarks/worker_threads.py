"""How many threads of a run want a core at a time, in a worker and without its limits.

    python benchmarks/worker_threads.py [--batch-size 50] [--free]

Looks every 10 ms, while AdamQLR trains on Fashion-MNIST, how many threads are running
or ready to run. Unlike CPU time over wall time, that holds on a busy machine too.
"""

import argparse
import os
import threading
import time
from collections import Counter
from pathlib import Path

from qlrstudy.cluster import connection


def runnable(but: str) -> int:
    """Threads of this process that run or could, but for one."""
    tasks = [task for task in Path("/proc/self/task").iterdir() if task.name != but]
    states = [(t / "stat").read_text().rsplit(")", 1)[1].split()[0] for t in tasks]
    return states.count("R")


def watch(counts: Counter[int], stop: threading.Event) -> None:
    """Count until told to stop."""
    own = str(threading.get_native_id())
    while not stop.wait(0.01):
        counts[runnable(own)] += 1


def main() -> None:
    """Train for some seconds, and print what was seen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--batch-size", type=int, default=50)
    parser.add_argument("--free", action="store_true", help="without a worker's limits")
    parser.add_argument("--seconds", type=float, default=8.0)
    options = parser.parse_args()
    if not options.free:  # before JAX is loaded
        os.environ.update(connection.environment(1))

    import jax

    from qlrstudy.algorithms import ALGORITHMS
    from qlrstudy.spec import DataOptions
    from qlrstudy.tasks import TASKS
    from qlrstudy.training import loops
    from qlrstudy.training.resolve import run_with

    task = TASKS["fashion-mnist"]["paper"]
    train = jax.device_put(task.load(DataOptions()).train)
    chosen = {"batch_size": options.batch_size}
    loop = loops.loop(run_with(task, ALGORITHMS["adamqlr-tuned"], chosen, 0), train)
    carry, done, many = loop.prepare(loop.init()), 0, 20_000 // options.batch_size
    counts, stop = Counter[int](), threading.Event()
    watcher = threading.Thread(target=watch, args=(counts, stop))
    end = time.perf_counter() + options.seconds
    watcher.start()
    while time.perf_counter() < end:
        carry, _ = loop.advance(carry, done, done + many)
        done += many
    stop.set()
    watcher.join()
    total = sum(counts.values())
    for count, times in sorted(counts.items()):
        print(f"{count} threads: {times / total:.1%} of {total} looks")


if __name__ == "__main__":
    main()
