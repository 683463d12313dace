"""What a stored run costs over the bare compiled loop of the same work.

    python benchmarks/engine.py [--task uci-energy] [--algorithm adamqlr-untuned]

The bare loop is one `lax.scan` over the same steps, with no store, no evaluation and no
stretches. Both take turns, and the best of several rounds counts, since what else the
machine does can only add time. The time from command to first step is that of a new
process whose programs are in the cache already: `qlrstudy run` with a single step.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax

from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.spec import DataOptions, Run, Split
from qlrstudy.tasks import TASKS
from qlrstudy.training import loops
from qlrstudy.training.train import train


def bare_loop(run: Run, split: Split, steps: int) -> Any:
    """All steps of a run in one compiled scan."""
    task, count = run.task, len(split.inputs)
    per_epoch = task.sampling.steps(count, run.shape)
    keys, settings = loops._keys(run), loops._settings(run, per_epoch)

    @jax.jit
    def scan(carry: Any, settings: Any, split: Split) -> Any:
        stepper = run.algorithm.bind(task, settings)

        def epoch(carry: Any, e: jax.Array) -> Any:
            order = jax.random.fold_in(keys.order, e)
            plan = task.sampling.epoch(order, count, run.shape)

            def step(carry: Any, rows: Any) -> Any:
                indices, weights = rows
                batch = task.sampling.gather(split, indices, weights, run.shape)
                return stepper.step(carry, batch, order)

            return jax.lax.scan(step, carry, plan)

        epochs = jax.numpy.arange(steps // per_epoch)
        return jax.lax.scan(epoch, carry, epochs)

    start = loops.loop(run, split).init()
    return lambda: jax.block_until_ready(scan(start, settings, split))


def one_step(command: list[str]) -> float:
    """Seconds that a new process takes for a run of a single step."""
    with tempfile.TemporaryDirectory() as store:
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "qlrstudy"]
            + [*command, "--steps", "1", "--store", store],
            check=True,
            capture_output=True,
        )
        return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="uci-energy")
    parser.add_argument("--algorithm", default="adamqlr-untuned")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    task, algorithm = TASKS[options.task]["paper"], ALGORITHMS[options.algorithm]
    data = task.load(DataOptions(options.data_dir))
    shape, settings = algorithm.batch(task), algorithm.defaults
    run = Run(task, algorithm, settings, shape, 0, task.budget)
    per_epoch = task.sampling.steps(len(data.train.inputs), shape)
    steps = task.budget.total_steps(per_epoch)
    assert steps is not None, "choose a task whose budget is not in seconds"

    bare = bare_loop(run, jax.device_put(data.train), steps)
    bare()
    stored_times, bare_times = [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as store:
            outcome = train(run, data, Path(store))
            stored_times.append(outcome.record.training_seconds)
        begin = time.perf_counter()
        bare()
        bare_times.append(time.perf_counter() - begin)

    command = ["run", options.task, options.algorithm]
    if options.data_dir is not None:
        command += ["--data-dir", str(options.data_dir)]
    one_step(command)  # fills the cache of compiled programs
    first_step = one_step(command)

    stored, own = min(stored_times), min(bare_times)
    print(f"{task.title}, {algorithm.title}, {steps:,} steps of {shape.size}")
    print(f"bare loop         {own:.3f} s")
    print(f"stored run        {stored:.3f} s of training, {stored / own:.3f} times")
    print(f"command to end of a first step, evaluated and stored: {first_step:.2f} s")


if __name__ == "__main__":
    main()
