"""Failures over fifty hard problems, with Adam at 1e-3 beside.

    PYTHONPATH=tests python benchmarks/hard_problems.py [--torch] [--only units]
        [--rare]

The problems are those of `tests/hard_cases.py`, with `--rare` its rare classes at all
shares and batches. A run fails if its loss over the whole data ends above where it
began or above that of the best constant, or is not finite. Adam is spared the batches
that are not finite; ours are not. "Over Adam" is the largest ratio of all seeds.
"""

import argparse
import functools
import math

from rich.console import Console
from rich.progress import track
from rich.table import Table

from hard_cases import PROBLEMS, SHARES, Make, Outcome, rare_classes

RARE: dict[str, Make] = {
    f"{share:.1%} rare, batch {batch}, {classes} classes": functools.partial(
        rare_classes, share=share, batch=batch, classes=classes
    )
    for classes in (2, 5)
    for batch in (4, 16, 32, 128, 512)
    for share in SHARES
}


def train(make: Make, seeds: int, *, torch: bool, adam: bool) -> list[Outcome]:
    problems = [make(seed) for seed in range(seeds)]
    if torch:
        import hard_cases_torch as runner

        optimiser = runner.adam if adam else runner.adam_qlr
        return [runner.train(problem, optimiser) for problem in problems]
    import hard_cases_jax as in_jax

    return in_jax.train(problems, in_jax.ADAM if adam else in_jax.DEFAULT)


def middle(values: list[float]) -> str:
    finite = sorted(value if math.isfinite(value) else math.inf for value in values)
    return f"{finite[len(finite) // 2]:.3g}"


def ratio(ours: Outcome, adam: Outcome) -> float:
    worse = max(ours.params, ours.average)
    return worse / adam.params if adam.params > 0 else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--torch", action="store_true", help="instead of JAX")
    parser.add_argument("--only", default="", help="problems whose name contains this")
    parser.add_argument("--rare", action="store_true", help="rare classes only")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()

    console = Console(width=110)
    columns = "bar", "ours", "average", "Adam", "over Adam", "failed", "Adam's"
    table = Table("problem", *columns)
    reasons = []
    runs, failed = 0, {"ours": 0, "Adam": 0}
    known = RARE if given.rare else PROBLEMS
    chosen = {name: make for name, make in known.items() if given.only in name}
    for name, make in track(chosen.items(), console=Console(stderr=True)):
        bar = make(0).bar
        ours, adam = (
            train(make, given.seeds, torch=given.torch, adam=which)
            for which in (False, True)
        )
        failures = [run.failures(bar) for run in ours]
        of_adam = sum(bool(run.failures(bar)) for run in adam)
        table.add_row(
            name,
            f"{bar:.3g}",
            middle([run.params for run in ours]),
            middle([run.average for run in ours]),
            middle([run.params for run in adam]),
            f"{max(map(ratio, ours, adam)):.2f}",
            str(sum(map(bool, failures)) or ""),
            str(of_adam or ""),
        )
        what = sorted({reason for run in failures for reason in run})
        reasons += [f"{name}: {', '.join(what)}"] if what else []
        runs += given.seeds
        failed["ours"] += sum(bool(run) for run in failures)
        failed["Adam"] += of_adam
    console.print(table)
    console.print("\n".join(reasons))
    console.print(
        f"{runs} runs: {failed['ours']} failures, Adam at 1e-3 {failed['Adam']}"
    )


if __name__ == "__main__":
    main()
