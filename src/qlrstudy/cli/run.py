"""`qlrstudy run`: train one algorithm on one task, once."""

import math
from typing import Any

from qlrstudy.cli import console, options, progress, results
from qlrstudy.cli.options import Place, Settings
from qlrstudy.cli.selection import selected_run
from qlrstudy.spec import Run
from qlrstudy.store.manifest import Status
from qlrstudy.training import provenance
from qlrstudy.training.compilation_cache import keep_compiled_programs
from qlrstudy.training.outcome import Outcome
from qlrstudy.training.train import train


def run(
    task: str, algorithm: str, settings: Settings, place: Place, *, as_json: bool
) -> int:
    """Do the command."""
    chosen = selected_run(task, algorithm, settings, place.store)
    keep_compiled_programs()
    data = chosen.task.load(place.data)
    title = f"{chosen.task.title}, {chosen.algorithm.title}, seed {chosen.seed}"
    caveats = provenance.caveats(chosen, data)
    stopping = options.stop_on_signals()
    with progress.one_run(title) as watch:
        outcome = train(chosen, data, place.store, watch=watch, should_stop=stopping)
    if outcome.damage:
        console.say(f"{outcome.damage}; the run was done again")
    if as_json:
        console.as_json(_as_json(chosen, outcome, caveats))
    else:
        results.summary(title, outcome, caveats)
    if outcome.status == Status.INTERRUPTED:
        console.say(f"interrupted: the same command goes on from step {outcome.step:,}")
        return 130
    return 0


def _as_json(run: Run, outcome: Outcome, caveats: list[str]) -> dict[str, Any]:
    record = outcome.record._asdict()
    finite = {k: v if math.isfinite(v) else None for k, v in record.items()}
    return {
        "task": run.task.name,
        "algorithm": run.algorithm.name,
        "seed": run.seed,
        "scale": run.task.scale,
        "hyperparameters": provenance.hyperparameters(run),
        "status": outcome.status,
        "found": outcome.found,
        "steps": finite.pop("step"),
        "epochs": finite.pop("epoch"),
        "compile_seconds": outcome.compile_seconds,
        **finite,
        "caveats": caveats,
        "path": str(outcome.path),
    }
