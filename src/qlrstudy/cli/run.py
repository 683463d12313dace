"""`qlrstudy run`: train one algorithm on one task, once."""

import argparse
import json
import math
import sys
from typing import Any

from qlrstudy.cli import console, progress, results
from qlrstudy.cli import options as given
from qlrstudy.cli.selection import selected_run
from qlrstudy.spec import Run
from qlrstudy.store.manifest import Status
from qlrstudy.training import provenance
from qlrstudy.training.compilation_cache import keep_compiled_programs
from qlrstudy.training.outcome import Outcome
from qlrstudy.training.train import train


def run(options: argparse.Namespace) -> int:
    """Do the command."""
    chosen = selected_run(options)
    keep_compiled_programs()
    data = chosen.task.load(given.data_options(options))
    title = f"{chosen.task.title}, {chosen.algorithm.title}, seed {chosen.seed}"
    caveats = provenance.caveats(chosen, data)
    stopping = given.stop_on_signals()
    with progress.one_run(title) as watch:
        outcome = train(chosen, data, options.store, watch=watch, should_stop=stopping)
    if outcome.damage:
        console.say(f"{outcome.damage}; the run was done again")
    if options.json:
        sys.stdout.write(json.dumps(_as_json(chosen, outcome, caveats)) + "\n")
    else:
        results.summary(title, outcome, caveats)
    return 130 if outcome.status == Status.INTERRUPTED else 0


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
        "steps": finite.pop("step"),
        "epochs": finite.pop("epoch"),
        "compile_seconds": outcome.compile_seconds,
        **finite,
        "caveats": caveats,
        "path": str(outcome.path),
    }
