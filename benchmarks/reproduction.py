"""The paper's results beside ours, with the paper's own hyperparameters.

    python benchmarks/reproduction.py [--seeds 10] [--task uci-energy ...] [--store DIR]

Does the runs that the store lacks and prints the report's first table, which
`qlrstudy report` makes of the same store with all else. Interrupted, it goes on where
it was; with `--seeds 0` it only prints what the store has.
"""

import argparse
from pathlib import Path

from qlrstudy import paper
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.report import render, tables
from qlrstudy.report.comparison import STUDIES, comparisons
from qlrstudy.report.groups import groups
from qlrstudy.report.load import load
from qlrstudy.spec import Algorithm, BatchShape, DataOptions, Dataset, Run, Task
from qlrstudy.tasks import TASKS
from qlrstudy.training import provenance
from qlrstudy.training.train import train


def chosen(task: Task, algorithm: Algorithm, seed: int) -> Run | None:
    """The run with the paper's hyperparameters, where it has any and results."""
    if not paper.result(task, algorithm):
        return None
    settings = {**algorithm.defaults, **paper.hyperparameters(task, algorithm)}
    shape = BatchShape(int(settings.pop("batch_size")))
    return Run(task, algorithm, settings, shape, seed, task.budget)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--task", nargs="+", default=["uci-energy", "uci-protein", "fashion-mnist"]
    )
    parser.add_argument("--algorithm", nargs="+", default=list(ALGORITHMS))
    parser.add_argument("--store", type=Path, default=Path("runs"))
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    data: dict[str, Dataset] = {}
    for seed in range(options.seeds):
        for name in options.task:
            task = TASKS[name]["paper"]
            for algorithm in options.algorithm:
                run = chosen(task, ALGORITHMS[algorithm], seed)
                if run is None:
                    continue
                if name not in data:
                    data[name] = task.load(DataOptions(options.data_dir))
                outcome = train(run, data[name], options.store)
                loss = outcome.record.test_loss
                print(name, provenance.hyperparameters(run), seed, loss, flush=True)

    found = [
        g for g in groups(load(options.store).runs) if g.place.task in options.task
    ]
    print(render.markdown(tables.results(comparisons(found), STUDIES[0])))


if __name__ == "__main__":
    main()
