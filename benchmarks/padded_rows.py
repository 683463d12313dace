"""Why the paper's AdamQLR (Untuned) diverges on UCI Energy, and ours does not.

    python benchmarks/padded_rows.py [--seeds 6] [--data-dir DIR]

The batch (3,200) exceeds the training set (588). The authors' code fills the batch up,
and the filling enters the mean of the curvature as zeros: the curvature is 588 / 3,200
of its value, and the step up to 5.4 times too long. Here is AdamQLR with that factor
and without it, all else the same.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import optax

from adamqlr.jax import Fisher, Look, Point, paper_adamqlr
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.spec import DataOptions, Run, Settings, Task
from qlrstudy.steps import chosen_step, optax_algorithm, qlr_batch
from qlrstudy.tasks import TASKS
from qlrstudy.train import train


class PaddedFisher:
    """Fisher curvature of 588 rows, averaged as if there were 3,200."""

    def look(self, point: Point, direction: Any, reach: Any) -> Look:
        look = Fisher().look(point, direction, reach)
        return look._replace(curvature=look.curvature * 588 / 3200)


def build(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    return paper_adamqlr(curvature=PaddedFisher(), **settings)


PADDED = optax_algorithm(
    "adamqlr-padded",
    "AdamQLR (Untuned), padded rows counted",
    build,
    batch=qlr_batch,
    defaults={"damping": 1e-3, "damping_decrease": 0.5, "damping_increase": 2.0},
    report=chosen_step,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    task = TASKS["uci-energy"]["paper"]
    data = task.load(DataOptions(options.data_dir))
    for algorithm in (PADDED, ALGORITHMS["adamqlr-untuned"]):
        for seed in range(options.seeds):
            shape = algorithm.batch(task)
            run = Run(task, algorithm, algorithm.defaults, shape, seed, task.budget)
            with tempfile.TemporaryDirectory() as store:
                outcome = train(run, data, Path(store))
            record = outcome.record
            print(
                f"{algorithm.title}, seed {seed}: {outcome.status} at step "
                f"{record.step:,}, training loss {record.minibatch_training_loss:.3g}, "
                f"test loss {record.test_loss:.3g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
