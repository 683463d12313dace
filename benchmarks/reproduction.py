"""The paper's results beside ours, with the paper's own hyperparameters.

    python benchmarks/reproduction.py [--seeds 10] [--task uci-energy ...] [--store DIR]

Does the runs that the store lacks and prints a table in Markdown: medians over seeds
beside the paper's, each with its error over bootstrap samples of the runs, and how many
of the paper's errors lie between. A run that diverged counts with its last finite
values, as in the paper's tables. Interrupted, it goes on where it was; with `--seeds 0`
it only prints what the store has.
"""

import argparse
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from qlrstudy import paper, provenance
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.spec import Algorithm, BatchShape, DataOptions, Dataset, Record, Run, Task
from qlrstudy.store import RunDirectory, runs
from qlrstudy.tasks import TASKS
from qlrstudy.train import train

COMPARED = {
    "training_loss": "minibatch_training_loss",
    "test_loss": "test_loss",
    "test_accuracy": "test_accuracy",
}


def chosen(task: Task, algorithm: Algorithm, seed: int) -> Run | None:
    """The run with the paper's hyperparameters, where it has any and results."""
    if not paper.result(task, algorithm):
        return None
    settings = {**algorithm.defaults, **paper.hyperparameters(task, algorithm)}
    shape = BatchShape(int(settings.pop("batch_size")))
    return Run(task, algorithm, settings, shape, seed, task.budget)


def last_finite(directory: RunDirectory) -> Record:
    """The last evaluation with losses; the minibatch's is of the last such step."""
    records = [r for r in directory.records() if math.isfinite(r.test_loss)]
    losses = directory.steps().loss
    finite = losses[[math.isfinite(loss) for loss in losses]]
    return records[-1]._replace(minibatch_training_loss=float(finite[-1]))


def rows(store: Path, tasks: list[str]) -> Iterator[list[str]]:
    """One row for each task and algorithm that the store has runs of."""
    groups: dict[tuple[str, str], list[tuple[Record, Any]]] = {}
    for path, manifest in runs(store):
        if manifest["status"] in ("finished", "diverged"):
            key = (manifest["task"], manifest["algorithm"])
            entry = (last_finite(RunDirectory(path)), manifest)
            groups.setdefault(key, []).append(entry)
    for task in tasks:
        for name, algorithm in ALGORITHMS.items():
            found = groups.get((task, name), [])
            if found:
                theirs = paper.result(TASKS[task]["paper"], algorithm)
                yield [task, algorithm.title, _count(found), *_compared(found, theirs)]


def _count(found: list[tuple[Record, Any]]) -> str:
    diverged = sum(manifest["status"] == "diverged" for _, manifest in found)
    return f"{len(found)}" + (f" ({diverged} diverged)" if diverged else "")


def _median(values: list[float]) -> tuple[float, float]:
    """The median, and its error as the paper has it: over 50 bootstrap samples."""
    draw = np.random.default_rng(0).choice(values, (50, len(values)))
    return statistics.median(values), float(np.median(draw, axis=1).std())


def _compared(
    found: list[tuple[Record, Any]], theirs: dict[str, float]
) -> Iterator[str]:
    for column, ours in COMPARED.items():
        values = [record._asdict()[ours] for record, _ in found]
        if column not in theirs:
            yield "–"
            continue
        median, own = _median(values)
        mean, error = theirs[column], theirs[f"{column}_error"]
        apart = (median - mean) / error if error else math.nan
        yield f"{median:.4g} ± {own:.1g} / {mean:.4g} ± {error:.1g} ({apart:+.1f})"
    steps = statistics.median([record.step for record, _ in found])
    yield f"{steps:,.0f} / {theirs['total_steps']:,.0f}"


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

    header = ["task", "algorithm", "runs", *COMPARED, "steps"]
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows(options.store, options.task):
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
