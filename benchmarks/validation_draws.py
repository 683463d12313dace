"""How far the draw of the validation set moves the paper's results.

    python benchmarks/validation_draws.py [--task uci-energy] [--algorithm adam ...]
        [--draws 5] [--seeds 5] [--data-dir DIR]

The paper's runs, like ours, share one random draw of the examples held out, and it is
not the same draw: an error that no number of repetitions shows. Here the paper's
hyperparameters are run on other draws. `last` holds out the last examples, as the
authors' code does; the others are random.
"""

import argparse
import dataclasses
import statistics
import tempfile
from math import isfinite
from pathlib import Path

import numpy as np
from reproduction import chosen

from qlrstudy import paper
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.data.splits import hold_out
from qlrstudy.spec import DataOptions, Dataset, Run, Split
from qlrstudy.store.runs import RunDirectory
from qlrstudy.tasks import TASKS
from qlrstudy.training.train import train


def redrawn(data: Dataset, draw: int | None) -> Dataset:
    """The same data with other examples held out: the last ones, or a random draw."""
    held = len(data.validation.targets)
    count = len(data.train.targets) + held
    before = np.concatenate(hold_out(count, held / count))
    parts = zip(data.train, data.validation, strict=True)
    # Back to the order of the file, then cut anew.
    whole = [np.concatenate(pair)[np.argsort(before)] for pair in parts]
    order = np.arange(count)
    if draw is not None:
        order = np.random.default_rng(1000 + draw).permutation(count)
    cut = lambda rows: Split(*[part[np.sort(rows)] for part in whole])
    train_rows, held_rows = order[: count - held], order[count - held :]
    return dataclasses.replace(data, train=cut(train_rows), validation=cut(held_rows))


def losses(run: Run, data: Dataset, seeds: int) -> tuple[float, float]:
    """Medians over seeds of the last minibatch's and of the test loss.

    A run that diverged counts with its last finite losses.
    """
    records = []
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as store:
            again = dataclasses.replace(run, seed=seed)
            path = train(again, data, Path(store)).path
            finite = [r for r in RunDirectory(path).records() if isfinite(r.test_loss)]
            records.append(finite[-1])
    return (
        statistics.median(record.minibatch_training_loss for record in records),
        statistics.median(record.test_loss for record in records),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="uci-energy")
    parser.add_argument(
        "--algorithm", nargs="+", default=["adam", "adamqlr-tuned", "sgd-full"]
    )
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    task = TASKS[options.task]["paper"]
    data = task.load(DataOptions(options.data_dir))
    print("| algorithm | draw | training loss (last minibatch) | test loss |")
    print("|---|---|---|---|")
    for name in options.algorithm:
        run = chosen(task, ALGORITHMS[name], seed=0)
        if run is None:
            raise SystemExit(f"the paper has no result of {name} on {options.task}")
        result = paper.result(task, ALGORITHMS[name])
        for draw in (None, *range(options.draws)):
            training, test = losses(run, redrawn(data, draw), options.seeds)
            title = "last" if draw is None else str(draw)
            row = (run.algorithm.title, title, f"{training:.4g}", f"{test:.4g}")
            print("|", " | ".join(row), "|", flush=True)
        published = (f"{result[loss]:.4g}" for loss in ("training_loss", "test_loss"))
        print("|", " | ".join((run.algorithm.title, "the paper's", *published)), "|")


if __name__ == "__main__":
    main()
