"""What runs take beside their training: compiling and evaluation.

A run's compiling ends with its first evaluation, so that where the programs were at
hand it is the time of one evaluation: the least of a task's runs has that. A program is
compiled once for all runs of an algorithm with one batch; of these the one that took
longest did so, and the median over programs is what one costs. Runs in the store say
so, or else `overheads.csv`, by `benchmarks/step_costs.py`.
"""

import csv
import importlib.resources
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from qlrstudy.spec import Run
from qlrstudy.store.manifest import Manifest

Place = tuple[str, str]  # task, scale
_Program = tuple[str, int, int | None]  # algorithm, batch, length


class Overhead(NamedTuple):
    """Seconds of one evaluation of a task, and of compiling one program."""

    evaluation: float
    compiling: float


class Beside(NamedTuple):
    """Seconds that some runs take beside their training, and tasks not known of."""

    seconds: float
    unknown: frozenset[str] = frozenset()


def measured(manifests: Iterable[Manifest]) -> dict[Place, Overhead]:
    """Of each task, at its scale, with several runs of one program."""
    found: dict[Place, dict[_Program, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for known in manifests:
        if known.compile_seconds and known.status.is_final:
            shape = known.hyperparameters
            size, length = shape.get("batch_size", 0), shape.get("sequence_length")
            program = (known.algorithm, int(size), int(length) if length else None)
            found[known.task, known.scale][program].append(known.compile_seconds)
    return {
        place: Overhead(
            min(map(min, programs.values())),
            statistics.median(map(max, programs.values())),
        )
        for place, programs in found.items()
        if any(len(own) > 1 for own in programs.values())  # one had it compiled
    }


class Overheads:
    """Counts what runs take, each program once.

    Args:
        stored: of the runs in the store, which count first.
    """

    def __init__(self, stored: Mapping[Place, Overhead]) -> None:
        self._known = {**table(), **stored}
        self._compiled: set[tuple[Place, _Program]] = set()

    def of(self, runs: Iterable[tuple[Run, float]]) -> Beside:
        """Seconds of runs, each with the number of its evaluations."""
        seconds, unknown = 0.0, set[str]()
        for run, evaluations in runs:
            place = (run.task.name, run.task.scale)
            known = self._known.get(place)
            if known is None:
                unknown.add(run.task.name)
                continue
            program = (run.algorithm.name, run.shape.size, run.shape.length)
            if (place, program) not in self._compiled:
                self._compiled.add((place, program))
                seconds += known.compiling
            seconds += evaluations * known.evaluation
        return Beside(seconds, frozenset(unknown))


def table() -> dict[Place, Overhead]:
    """What `overheads.csv` has."""
    file = importlib.resources.files("qlrstudy.studies") / "overheads.csv"
    return {
        (row["task"], row["scale"]): Overhead(
            float(row["evaluation_seconds"]), float(row["compile_seconds"])
        )
        for row in csv.DictReader(file.read_text().splitlines())
    }
