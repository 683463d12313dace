"""Cost of a training step against `torch.optim.Adam(foreach=True)`: time and memory.

    python benchmarks/torch_step_cost.py [--rounds 10] [--problem ResNet] [--only probe]
        [--late] [--time]

All optimisers take turns in one process, step by step, so that the machine's noise
meets them alike. A round has as many steps as one look is for; what is reported is the
median over rounds of each one's CPU time over Adam's. The overhead is what a round
takes beyond one forward and one backward pass a step, over what Adam's takes, by these
medians. Memory is the most that tensors held at once during a round, by torch's own
profiler, without what was there before. With `--late` steps are those after the
1,024th, which look more rarely.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from torch_models import PROBLEMS, problem

from adamqlr.step import FIRST_LOOKS, RAREST_LOOKS, look_interval
from adamqlr.torch import AdamQLR, Categorical, Fisher, Objective, Rule

Step = Callable[[], Any]


class Problem(NamedTuple):
    """What is trained, and how many steps count as made before."""

    model: nn.Module
    x: torch.Tensor
    y: torch.Tensor
    begin: int


def adam_step(problem: Problem) -> Step:
    model, x, y, _ = problem
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, foreach=True)

    def step() -> None:
        optimizer.zero_grad()
        logits = model(x)
        nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten()).backward()
        optimizer.step()

    return step


def passes(problem: Problem) -> Step:
    """What every optimiser needs: one forward and one backward pass."""
    model, x, y, _ = problem

    def step() -> None:
        model.zero_grad()
        logits = model(x)
        nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten()).backward()

    return step


def begun(problem: Problem, **settings: Any) -> AdamQLR:
    """An optimiser that believes in so many steps made, which says when to look."""
    optimizer = AdamQLR(problem.model.parameters(), **settings)
    for group in optimizer.param_groups:
        group["memory_steps"] = problem.begin
    return optimizer


def qlr_step(problem: Problem, **settings: Any) -> Step:
    model, x, y, _ = problem
    optimizer = begun(problem, **settings)
    return lambda: optimizer.step(Objective(model, Categorical(), x, y))


def watched_step(problem: Problem) -> Step:
    """A loop that stays as it was."""
    model, x, y, _ = problem
    criterion = nn.CrossEntropyLoss()
    optimizer = begun(problem).watch(model, Categorical())

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(x).flatten(0, -2), y.flatten()).backward()
        optimizer.step()

    return step


STEPS: dict[str, Callable[..., Step]] = {
    "passes": passes,
    "Adam": adam_step,
    "probe": qlr_step,
    "probe, watched": watched_step,
    "exact": lambda problem: qlr_step(problem, curvature=Fisher()),
}


def cpu_time(step: Step) -> float:
    """CPU seconds of a step."""
    start = time.process_time()
    step()
    return time.process_time() - start


def repeat(step: Step, times: int) -> None:
    for _ in range(times):
        step()


def round_of(steps: dict[str, Step], length: int) -> dict[str, float]:
    """CPU seconds of so many steps of each, which alternate."""
    seconds = dict.fromkeys(steps, 0.0)
    for _ in range(length):
        for key, step in steps.items():
            seconds[key] += cpu_time(step)
    return seconds


def peak_bytes(step: Step, steps: int) -> int:
    """The most bytes so many steps held beyond what they began with."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        repeat(step, steps)
    held = peak = 0
    # Each allocation and release, in the order they happened.
    for event in profile.profiler.kineto_results.events():  # type: ignore[union-attr]
        if event.name() == "[memory]":
            held += event.nbytes()  # type: ignore[attr-defined] - not in its stub
            peak = max(peak, held)
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="of each problem")
    parser.add_argument("--problem", default="", help="only those whose name has this")
    parser.add_argument("--only", default="", help="of ours, whose name has this")
    parser.add_argument("--late", action="store_true", help="after 1,024 steps")
    parser.add_argument(
        "--time", action="store_true", help="no memory, which takes long"
    )
    arguments = parser.parse_args()
    begin = RAREST_LOOKS if arguments.late else 0
    length = look_interval(Rule(), begin)
    makers = {
        key: make
        for key, make in STEPS.items()
        if key in ("passes", "Adam") or arguments.only in key
    }

    table = Table(title=f"a step's cost over Adam's (torch {torch.__version__}, CPU)")
    table.add_column("network")
    table.add_column("optimiser")
    for column in (
        "time",
        "overhead",
        "peak memory",
        "beyond Adam's, in parameters",
        "Adam's ms",
    ):
        table.add_column(column, justify="right")
    for name in [name for name in PROBLEMS if arguments.problem in name]:
        steps = {
            key: make(Problem(*problem(name), begin)) for key, make in makers.items()
        }
        for step in steps.values():
            repeat(step, max(FIRST_LOOKS, length))  # These make states and kernels.
        rounds = [round_of(steps, length) for _ in range(arguments.rounds)]
        over = {
            key: statistics.median([each[key] / each["Adam"] for each in rounds])
            for key in steps
        }
        adam = statistics.median([each["Adam"] for each in rounds])
        measured = {} if arguments.time else steps
        peaks = {key: peak_bytes(step, length) for key, step in measured.items()}
        size = 4 * sum(param.numel() for param in problem(name)[0].parameters())
        for key in [key for key in steps if key != "passes"]:
            beyond, memory = over[key] - over["passes"], ["–", "–"]
            if peaks:
                memory = [
                    f"{peaks[key] / peaks['Adam']:.2f}",
                    f"{(peaks[key] - peaks['Adam']) / size:+.2f}",
                ]
            table.add_row(
                name,
                key,
                f"{over[key]:.2f}",
                f"{beyond / (1 - over['passes']):.2f}",
                *memory,
                f"{1e3 * adam / length:.1f}",
            )
        table.add_section()
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
