"""What a step costs on one core, for `qlrstudy study --dry-run` where no run says so.

    python benchmarks/step_costs.py STORE [STORE ...]

Takes it from the runs of stores, the trials of tunings among them, and writes
`src/qlrstudy/studies/step_costs.csv` anew. Of several runs the fastest counts: what
else the machine does can only add time.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

from qlrstudy.store.runs import read_runs
from qlrstudy.store.tunings import FOLDER

TABLE = Path(__file__).parents[1] / "src" / "qlrstudy" / "studies" / "step_costs.csv"
KEYS = ("task", "scale", "algorithm", "batch_size", "sequence_length")
Key = tuple[str, ...]


def paces(store: Path) -> Iterator[tuple[Key, float]]:
    """Seconds a step of each run that took any."""
    for folder in (store, *store.glob(f"{FOLDER}/*/runs")):
        for known in read_runs(folder).manifests.values():
            seconds = (known.last or {}).get("training_seconds")
            if known.steps and seconds:
                shape = [known.hyperparameters.get(name, "") for name in KEYS[3:]]
                key = (known.task, known.scale, known.algorithm, *map(str, shape))
                yield key, seconds / known.steps


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("stores", nargs="+", type=Path, metavar="STORE")
    options = parser.parse_args()
    measured: dict[Key, float] = {}
    for store in options.stores:
        for key, pace in paces(store):
            measured[key] = min(pace, measured.get(key, pace))
    # By number where it is one.
    order = lambda key: (*key[:3], float(key[3]), float(key[4] or 0))
    with TABLE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((*KEYS, "seconds"))
        for key in sorted(measured, key=order):
            writer.writerow((*key, f"{measured[key]:.3g}"))
    print(f"{len(measured)} rows in {TABLE}")


if __name__ == "__main__":
    main()
