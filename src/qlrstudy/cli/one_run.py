"""`qlrstudy run`: train one algorithm on one task, once."""

import argparse
import json
import math
import sys
from typing import Any

from qlrstudy.cli import display
from qlrstudy.cli import options as arguments
from qlrstudy.cli.selection import choose
from qlrstudy.spec import Run
from qlrstudy.training import provenance
from qlrstudy.training.train import Outcome, train


def add_parsers(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    run = commands.add_parser("run", help="train one algorithm on one task, once")
    run.set_defaults(command=_run)
    arguments.pair(run)
    arguments.settings(run)
    run.add_argument("--json", action="store_true", help="the last line is JSON")
    arguments.store_and_data(run)


def _run(options: argparse.Namespace) -> int:
    run = choose(options)
    data = run.task.load(arguments.data_options(options))
    title = f"{run.task.title}, {run.algorithm.title}, seed {run.seed}"
    caveats = provenance.caveats(run, data)
    stopping = arguments.stop_on_signals()
    with display.live(title) as watch:
        outcome = train(run, data, options.store, watch=watch, should_stop=stopping)
    if options.json:
        sys.stdout.write(json.dumps(_as_json(run, outcome, caveats)) + "\n")
    else:
        display.summary(title, outcome, caveats)
    return 130 if outcome.status == "interrupted" else 0


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
