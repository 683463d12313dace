"""What a step costs on one core, for `qlrstudy study --dry-run` where no run says so.

    python benchmarks/step_costs.py --tasks uci-energy fashion-mnist \
        --algorithms adam adamqlr-tuned [--batch-sizes 50 400 3200]

Times the engine's own loop, with XLA kept to one core as in the study's workers, and
writes `src/qlrstudy/step_costs.csv`: rows measured anew replace the old ones, others
stay. The best of several rounds counts: what else the machine does can only add time.
"""

import argparse
import csv
import os
import time
from pathlib import Path
from typing import Any

from qlrstudy import connection

# Before JAX is loaded, which reads it once.
os.environ.update(connection.environment(1))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from qlrstudy import loops  # noqa: E402
from qlrstudy.algorithms import ALGORITHMS  # noqa: E402
from qlrstudy.programs import keep_compiled_programs  # noqa: E402
from qlrstudy.settings import run_with  # noqa: E402
from qlrstudy.spec import DataOptions, Run, Split, Task  # noqa: E402
from qlrstudy.tasks import TASKS  # noqa: E402

TABLE = Path(__file__).parents[1] / "src" / "qlrstudy" / "step_costs.csv"
KEYS: tuple[str, ...] = ("task", "scale", "algorithm", "batch_size", "sequence_length")
ROUNDS, ROUND_SECONDS = 5, 0.2


def seconds_a_step(run: Run, split: Split) -> float:
    """The least mean of a round's steps."""
    loop = loops.loop(run, split)
    carry, count, best = loop.prepare(loop.init()), 1, float("inf")
    rounds = 0
    while rounds < ROUNDS:
        begin = time.perf_counter()
        # The loop may use up what it is given.
        loop.advance(jax.tree.map(jnp.copy, carry), 0, count)
        passed = time.perf_counter() - begin
        if passed < ROUND_SECONDS and count < loops.CAPACITY:
            count = min(loops.CAPACITY, 4 * count)
            continue
        best, rounds = min(best, passed / count), rounds + 1
    return best


def batches(task: Task, sizes: list[int]) -> list[dict[str, float]]:
    """Shapes to measure: one where the task has no choice."""
    if not task.batch_sizes:
        return [{}]
    return [{"batch_size": size} for size in sizes]


def measured(task: Task, name: str, sizes: list[int]) -> list[dict[str, Any]]:
    """Rows of the table."""
    train = jax.device_put(task.load(DataOptions()).train)
    rows = []
    for chosen in batches(task, sizes):
        run = run_with(task, ALGORITHMS[name], chosen, 0)
        where = (task.name, task.scale, name, run.shape.size, run.shape.length or "")
        seconds = seconds_a_step(run, train)
        rows.append(dict(zip(KEYS, where, strict=True)) | {"seconds": f"{seconds:.3g}"})
        print(*where, f"{1e3 * seconds:.3f} ms", flush=True)
    return rows


def write(rows: list[dict[str, Any]]) -> None:
    """Put rows into the table, in order."""
    known = list(csv.DictReader(TABLE.open())) if TABLE.exists() else []
    table = {tuple(str(row[k]) for k in KEYS): row for row in (*known, *rows)}
    # By number where it is one.
    order = lambda key: (*key[:3], float(key[3]), key[4])
    with TABLE.open("w", newline="") as file:
        names: list[str] = [*KEYS, "seconds"]
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table[key] for key in sorted(table, key=order))


def main() -> None:
    """Measure what was asked for, and write as it comes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--tasks", nargs="+", required=True, choices=list(TASKS))
    parser.add_argument("--scale", default="paper")
    parser.add_argument(
        "--algorithms", nargs="+", required=True, choices=list(ALGORITHMS)
    )
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[50, 400, 3200])
    options = parser.parse_args()
    keep_compiled_programs()
    for task in options.tasks:
        for name in options.algorithms:
            write(measured(TASKS[task][options.scale], name, options.batch_sizes))


if __name__ == "__main__":
    main()
