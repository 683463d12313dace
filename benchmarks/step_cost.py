"""Cost of a training step against Adam's: time, XLA's FLOPs and memory, side by side.

    python benchmarks/step_cost.py [--rounds 10] [--problem ResNet] [--only default]

All optimisers take turns in one process, of as many steps as one look is for, so that
the machine's noise meets them alike; what is reported is the median over rounds of each
one's CPU time over Adam's. Twice: for early steps, but for the first, which all look,
and for late ones, from the 1,024th, which look four times as rarely.
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from models import problems
from rich.console import Console
from rich.table import Table

from adamqlr.jax import (
    PAPER,
    Categorical,
    Fisher,
    Probe,
    Rule,
    Subsampled,
    adam_qlr,
    paper_adam_qlr,
    trainer,
)
from adamqlr.step import FIRST_LOOKS, RAREST_LOOKS, look_interval

# From how many steps on, to a name for it.
STAGES = {FIRST_LOOKS: "early", RAREST_LOOKS: "late"}

OPTIMISERS = {
    "Adam": optax.adam(1e-3),
    "default": adam_qlr(),
    "default, quarter": adam_qlr(curvature=Subsampled(Probe(), 4, least=1)),
    "paper": paper_adam_qlr(),
    "paper, no trial": paper_adam_qlr(rule=dataclasses.replace(PAPER, damping=None)),
    "exact, quarter": adam_qlr(curvature=Subsampled(Fisher(), 4, least=1)),
}


# Of a step in each round, by optimiser.
Seconds = dict[str, list[float]]


class Program(NamedTuple):
    """One optimiser's compiled step and what XLA says of it."""

    step: Callable[..., Any]
    params: Any
    state: Any
    flops: float
    temporary_bytes: int


def compile_step(optimiser: optax.GradientTransformation, problem: Any) -> Program:
    model, inputs, labels = problem
    variables = model.init(jax.random.key(1), inputs)
    params, statistics_ = variables["params"], variables.get("batch_stats")

    def predict(params: Any, x: jax.Array, state: Any = None) -> Any:
        if state is None:
            return model.apply({"params": params}, x)
        variables = {"params": params, "batch_stats": state}
        outputs, new = model.apply(variables, x, mutable=["batch_stats"])
        return outputs, new["batch_stats"]

    init, step = trainer(predict, Categorical(), optimiser)
    state = init(params, state=statistics_)
    jitted = jax.jit(step, donate_argnums=(0, 1))
    compiled = jitted.lower(params, state, (inputs, labels)).compile()
    cost, memory = compiled.cost_analysis(), compiled.memory_analysis()
    assert cost is not None and memory is not None, "XLA counts both on every backend"
    return Program(
        lambda params, state: compiled(params, state, (inputs, labels)),
        params,
        state,
        cost["flops"],
        memory.temp_size_in_bytes,
    )


def measure(programs: dict[str, Program], rounds: int) -> dict[str, Seconds]:
    """CPU seconds of a step, by stage; all programs once in each round."""
    carried = {name: (p.params, p.state) for name, p in programs.items()}
    measured = {}
    for begin, stage in STAGES.items():
        seconds: Seconds = {name: [] for name in programs}
        carried = {name: (p, _after(begin, s)) for name, (p, s) in carried.items()}
        turn = look_interval(Rule(), begin)
        for _ in range(1 + rounds):
            for name, program in programs.items():
                start = time.process_time()
                for _ in range(turn):
                    carried[name] = program.step(*carried[name])
                jax.block_until_ready(carried[name])
                seconds[name].append((time.process_time() - start) / turn)
        measured[stage] = {name: times[1:] for name, times in seconds.items()}
    return measured


def _after(steps: int, state: Any) -> Any:
    """The state as if so many steps had been made, which tells when to look."""
    if not optax.tree.get_all_with_path(state, "memory"):
        return state  # Adam's.
    return optax.tree.set(state, steps=jnp.int32(steps))


def ratio(seconds: Seconds, name: str) -> str:
    """Median over rounds of a program's time over Adam's."""
    pairs = zip(seconds[name], seconds["Adam"], strict=True)
    return f"{statistics.median(ours / adam for ours, adam in pairs):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=10, help="turns of each optimiser"
    )
    parser.add_argument("--problem", default="", help="only those whose name has this")
    parser.add_argument("--only", default="", help="of ours, whose name has this")
    arguments = parser.parse_args()

    table = Table(title=f"a step's cost over Adam's (jax {jax.__version__}, CPU)")
    table.add_column("network")
    table.add_column("optimiser")
    columns = (*STAGES.values(), "FLOPs", "temporary memory", "Adam's ms")
    for column in columns:
        table.add_column(column, justify="right")
    for problem_name, problem in problems().items():
        if arguments.problem not in problem_name:
            continue
        programs = {
            name: compile_step(optimiser, problem)
            for name, optimiser in OPTIMISERS.items()
            if name == "Adam" or arguments.only in name
        }
        seconds = measure(programs, arguments.rounds)
        adam = programs["Adam"]
        for name, program in programs.items():
            table.add_row(
                problem_name,
                name,
                *[ratio(stage, name) for stage in seconds.values()],
                f"{program.flops / adam.flops:.3f}",
                f"{program.temporary_bytes / adam.temporary_bytes:.2f}",
                f"{1e3 * statistics.median(seconds['early']['Adam']):.1f}",
            )
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
