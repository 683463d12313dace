"""What tuning costs over the training of its trials.

    python benchmarks/tuning.py [--task uci-energy] [--algorithm adamqlr-tuned]
        [--samples 200] [--resource seconds] [--workers 2]

The ratio is the wall time of `qlrstudy tune`, in a new process and with a new store,
times the workers, over the sum of the trials' training seconds. What is above one is
the start of Python and Ray, compiling, evaluation, the store, and workers that wait.
With `--cold` no compiled programs are taken from the user's cache.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from qlrstudy.store.runs import read_runs
from qlrstudy.store.tunings import FOLDER


class Costs(NamedTuple):
    """Seconds of all trials together, and how many there are."""

    trials: int
    steps: int
    training: float
    compiling: float


def tuned(options: argparse.Namespace, store: Path, cache: Path) -> float:
    """Wall seconds of the command."""
    command = [sys.executable, "-m", "qlrstudy", "tune", options.task]
    command += [options.algorithm, "--samples", str(options.samples)]
    command += ["--resource", options.resource, "--workers", str(options.workers)]
    own: Mapping[str, str] = {"XDG_CACHE_HOME": str(cache)} if options.cold else {}
    begin = time.perf_counter()
    subprocess.run(
        [*command, "--store", str(store)],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **own},
    )
    return time.perf_counter() - begin


def costs(store: Path) -> Costs:
    """Of all trials in a store."""
    (folder,) = store.glob(f"{FOLDER}/*/runs")
    found = read_runs(folder).manifests.values()
    return Costs(
        len(found),
        sum(manifest.steps or 0 for manifest in found),
        sum((manifest.last or {})["training_seconds"] or 0 for manifest in found),
        sum(manifest.compile_seconds or 0 for manifest in found),
    )


def main() -> None:
    """Tune, and print the parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--task", default="uci-energy")
    parser.add_argument("--algorithm", default="adamqlr-tuned")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--resource", default="seconds", choices=("seconds", "epochs"))
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        wall = tuned(options, folder / "store", folder / "cache")
        found = costs(folder / "store")
    spent = wall * options.workers
    print(
        f"{found.trials} trials, {found.steps:,} steps, {options.workers} workers\n"
        f"wall time x workers      {spent:8.1f} s\n"
        f"training                 {found.training:8.1f} s\n"
        f"reading and compiling    {found.compiling:8.1f} s\n"
        f"ratio                    {spent / found.training:8.2f}\n"
        f"mean load of the machine {os.getloadavg()[1]:8.1f} (5 minutes)"
    )


if __name__ == "__main__":
    main()
