r"""What a step costs on one core, for `qlrstudy study --dry-run` where no run says so.

    python benchmarks/step_costs.py STORE [STORE ...]
    XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1" \
        python benchmarks/step_costs.py --measure svhn:paper:adam:256 [...]

Takes it from the runs of stores, the trials of tunings among them: of several runs the
fastest counts, since what else the machine does can only add time. Or takes some steps
of what is named, `TASK:SCALE:ALGORITHM:BATCH` or `...:BATCHxLENGTH`, and counts their
CPU time. `src/qlrstudy/studies/step_costs.csv` gets these rows and keeps its others.
`overheads.csv` beside it gets what the stores' runs took to compile and to evaluate.
"""

import argparse
import csv
import time
from collections.abc import Iterator
from pathlib import Path

from qlrstudy.store.manifest import Manifest
from qlrstudy.store.runs import read_runs
from qlrstudy.store.tunings import FOLDER
from qlrstudy.studies import overheads

TABLE = Path(__file__).parents[1] / "src" / "qlrstudy" / "studies" / "step_costs.csv"
KEYS = ("task", "scale", "algorithm", "batch_size", "sequence_length")
SECONDS = 1.0  # of CPU time, at least, and of at most an epoch
Key = tuple[str, ...]


def manifests(store: Path) -> Iterator[Manifest]:
    """Of all runs, the trials of tunings among them."""
    for folder in (store, *store.glob(f"{FOLDER}/*/runs")):
        yield from read_runs(folder).manifests.values()


def paces(store: Path) -> Iterator[tuple[Key, float]]:
    """Seconds a step of each run that took any."""
    for known in manifests(store):
        seconds = (known.last or {}).get("training_seconds")
        if known.steps and seconds:
            shape = [known.hyperparameters.get(name, "") for name in KEYS[3:]]
            key = (known.task, known.scale, known.algorithm, *map(str, shape))
            yield key, seconds / known.steps


def write_overheads(stores: list[Path]) -> None:
    """The other table anew."""
    found = overheads.measured(known for store in stores for known in manifests(store))
    with TABLE.with_name("overheads.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("task", "scale", "evaluation_seconds", "compile_seconds"))
        for place, own in sorted((overheads.table() | found).items()):
            writer.writerow((*place, *(f"{seconds:.3g}" for seconds in own)))


def measured_pace(named: str) -> tuple[Key, float]:
    """CPU seconds of a step, by taking some."""
    from qlrstudy.algorithms import ALGORITHMS
    from qlrstudy.spec import BatchShape, Budget, DataOptions, Run
    from qlrstudy.tasks import TASKS
    from qlrstudy.training import loops

    task_name, scale, algorithm_name, batch = named.split(":")
    size, _, length = batch.partition("x")
    task, algorithm = TASKS[task_name][scale], ALGORITHMS[algorithm_name]
    shape = BatchShape(int(size), int(length) if length else None)
    run = Run(task, algorithm, algorithm.defaults, shape, 0, Budget("epochs", 1))
    loop = loops.loop(run, task.load(DataOptions(partial=True)).train)
    carry = loop.prepare(loop.init())
    taken, spent = 0, 0.0
    while spent < SECONDS and taken < loop.steps_per_epoch:
        stop = min(max(1, 2 * taken), loop.steps_per_epoch)
        begin = time.process_time()
        carry, _ = loop.advance(carry, taken, stop)
        spent += time.process_time() - begin
        taken = stop
    return (task_name, scale, algorithm_name, size, length), spent / taken


def known_rows() -> dict[Key, str]:
    """What the table has already."""
    with TABLE.open(newline="") as file:
        return {tuple(r[k] for k in KEYS): r["seconds"] for r in csv.DictReader(file)}


def write(rows: dict[Key, str]) -> None:
    """The table anew, by number where it is one."""
    order = lambda key: (*key[:3], float(key[3]), float(key[4] or 0))
    with TABLE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*KEYS, "seconds"))
        for key in sorted(rows, key=order):
            writer.writerow((*key, rows[key]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("stores", nargs="*", type=Path, metavar="STORE")
    parser.add_argument("--measure", nargs="+", default=[], metavar="WHAT")
    options = parser.parse_args()
    found: dict[Key, float] = {}
    for store in options.stores:
        for key, pace in paces(store):
            found[key] = min(pace, found.get(key, pace))
    write(known_rows() | {key: f"{pace:.3g}" for key, pace in found.items()})
    if options.stores:
        write_overheads(options.stores)
    for named in options.measure:
        key, pace = measured_pace(named)
        print(named, f"{pace:.3g}", flush=True)
        write(known_rows() | {key: f"{pace:.3g}"})
    print(f"{len(known_rows())} rows in {TABLE}")


if __name__ == "__main__":
    main()
