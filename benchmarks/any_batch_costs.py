"""What a step costs in the cells of `any-batch`, in CPU time, on a busy machine too.

    python benchmarks/any_batch_costs.py [STORE] [--unseen] [--tasks TASK ...]

A run's seconds are those of the wall, to which other work on the machine adds. Here all
methods of a cell take turns at some hundred steps of their runs, one thread each, and
the least CPU time counts, of early steps and of late ones. With a store, prints the
areas under the performance profiles with these costs too, for the steps that its runs
took to the target. Two cores may be one core's threads, so that other work doubles the
CPU time of a step at times: stop it where it can be stopped.
"""

import argparse
import math
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from qlrstudy.cluster.connection import environment

os.environ |= environment(cores=1)

import jax  # noqa: E402 - XLA reads its flags once

from qlrstudy.report import profiles  # noqa: E402
from qlrstudy.report.groups import groups  # noqa: E402
from qlrstudy.report.load import load  # noqa: E402
from qlrstudy.spec import DataOptions, Run  # noqa: E402
from qlrstudy.studies import STUDIES  # noqa: E402
from qlrstudy.studies.expand import points  # noqa: E402
from qlrstudy.training import loops  # noqa: E402

# The others cost what one of these does: a schedule is nothing, an average an addition.
METHODS = (
    "adam",
    "adamqlr",
    "prodigy",
    "prodigy-average",
    "schedule-free-adam",
    "momo-adam",
    "muon",
)
ROUNDS, ROUND_SECONDS, FEW = 12, 0.05, 16
Key = tuple[str, int, float]  # task, batch size, steps


class Turn:
    """A run under way, and the least CPU time of its steps so far, early and late.

    A method's steps may cost less late in a run than early, as AdamQLR's do, so that a
    run's own steps are timed, from its first on and from there again. Early and late
    are powers of two: most stretches of a run are alike, and other work on the machine
    disturbs some of them.
    """

    def __init__(self, run: Run, train: Any) -> None:
        self.loop = loops.loop(run, train)
        self.steps = int(run.budget.amount)
        for _ in range(2):  # what is compiled or loaded first may cost more
            self.begin(FEW)
            self.take()

    @property
    def stretch(self) -> int:
        """Steps that take about as long as a turn should."""
        most = min(self.steps, loops.CAPACITY)
        count = min(int(ROUND_SECONDS / self.cost), most) // FEW * FEW
        return max(FEW, count)

    @property
    def cost(self) -> float:
        """Mean CPU seconds of a step."""
        starts = range(0, self.steps - self.count + 1, self.count)
        ages = [age for age in map(int.bit_length, starts) if age in self.least]
        return sum(self.least[age] for age in ages) / len(ages)

    def begin(self, count: int) -> None:
        """Start the run anew, so many steps a turn."""
        self.carry = self.loop.prepare(self.loop.init())
        self.step, self.count, self.least = 0, count, dict[int, float]()

    def take(self) -> None:
        """Some more steps, or the first ones again where the run ends."""
        if self.step + self.count > self.steps:
            self.carry, self.step = self.loop.prepare(self.loop.init()), 0
        start, stop = self.step, self.step + self.count
        begin = time.process_time()
        self.carry, _ = self.loop.advance(self.carry, start, stop)
        seconds = (time.process_time() - begin) / self.count
        age = start.bit_length()
        self.least[age] = min(self.least.get(age, math.inf), seconds)
        self.step = stop


def measured(options: argparse.Namespace) -> Iterator[tuple[Key, Mapping[str, float]]]:
    """The CPU seconds of a step of each method, cell by cell."""
    runs: dict[Key, dict[str, Run]] = {}
    for arm in STUDIES["any-batch"].arms:
        wanted = arm.algorithm in METHODS and (arm.unseen or not options.unseen)
        if wanted and (not options.tasks or arm.task in options.tasks):
            point = next(points(arm, {}))
            key = (arm.task, point.run.shape.size, point.run.budget.amount)
            runs.setdefault(key, {})[arm.algorithm] = point.run
    for key, own in runs.items():
        task = next(iter(own.values())).task
        data = task.load(DataOptions(options.data_dir, partial=True))
        train = jax.device_put(data.train)
        turns = {name: Turn(run, train) for name, run in own.items()}
        # One length for all: a stretch has a cost of its own, the order of an epoch.
        count = turns["adam"].stretch
        for turn in turns.values():
            turn.begin(count)
        for _ in range(ROUNDS):
            for turn in turns.values():
                turn.take()
        yield key, {name: turn.cost for name, turn in turns.items()}


def areas(store: Path, costs: Mapping[Key, Mapping[str, float]]) -> dict[str, float]:
    """Under the profiles in steps times these costs, of the methods measured."""
    timed = []
    for cell in profiles.cells(groups(load(store).runs)):
        size = int(dict(cell.shape)["batch_size"])
        known = costs.get((cell.place.task, size, cell.place.budget.amount), {})
        methods = {
            name: method._replace(seconds=method.steps * known[name])
            for name, method in cell.methods.items()
            if name in known
        }
        if methods:
            timed.append(cell._replace(methods=methods))
    ratios = profiles.ratios(timed, "seconds")
    return {name: profiles.area(own) for name, own in ratios.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("store", nargs="?", type=Path, metavar="STORE")
    parser.add_argument("--unseen", action="store_true", help="only cells that are so")
    parser.add_argument("--tasks", nargs="+", metavar="TASK")
    parser.add_argument("--data-dir", type=Path, metavar="DIR")
    options = parser.parse_args()
    print("| cell |", " | ".join(METHODS), "|\n|---|" + "---|" * len(METHODS))
    costs: dict[Key, Mapping[str, float]] = {}
    for key, own in measured(options):
        costs[key] = own
        over = [own[name] / own["adam"] for name in METHODS]
        shown = " | ".join(f"{ratio:.2f}" for ratio in over)
        print(f"| {key[0]}, batch {key[1]} | {shown} |", flush=True)
    mean = {
        name: profiles.geometric_mean(
            [own[name] / own["adam"] for own in costs.values()]
        )
        for name in METHODS
    }
    print("| geometric mean |", " | ".join(f"{mean[n]:.2f}" for n in METHODS), "|")
    if options.store is not None:
        print("\n| method | area, CPU time |\n|---|---|")
        found = areas(options.store, costs)
        for name in sorted(found, key=lambda name: -found[name]):
            print(f"| {name} | {found[name]:.3f} |")


if __name__ == "__main__":
    main()
