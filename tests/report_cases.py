"""Small stores for the report, written by the store's own code, without training."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from qlrstudy.report.load import StoredRun, load
from qlrstudy.spec import Record, StepReport
from qlrstudy.store.manifest import SCHEMA, Identity, Manifest
from qlrstudy.store.runs import RunDirectory, run_directory


def write_run(
    store: Path,
    task: str = "uci-energy",
    algorithm: str = "adam",
    seed: int = 0,
    *,
    losses: Sequence[float] = (1.0, 0.5, 0.25),
    hyperparameters: Mapping[str, float] | None = None,
    budget: Mapping[str, float] | None = None,
    seconds_per_step: float = 0.1,
    steps_between: int = 10,
    status: str = "finished",
    scale: str = "paper",
    positions: Sequence[Sequence[float]] = (),
    **manifest: Any,
) -> RunDirectory:
    """A run whose losses at evaluations are given; all else follows from them."""
    setting = dict(hyperparameters or {"batch_size": 50, "learning_rate": 1e-3})
    identity = {
        "schema": SCHEMA,
        "task": task,
        "scale": scale,
        "algorithm": algorithm,
        "hyperparameters": setting,
        "seed": seed,
        "budget": dict(budget or {"epochs": 4000}),
        "data": {},
        "examples": {"train": 10, "validation": 5, "test": 5},
    }
    # A hostile name need not be a file's too.
    safe = {"data": {"names": f"{task} {algorithm}"}, "task": "t", "algorithm": "a"}
    directory = run_directory(store, Identity(**(identity | safe)))
    last = steps_between * (len(losses) - 1)
    with directory.claim():
        for number, loss in enumerate(losses):
            step = steps_between * number
            seconds = step * seconds_per_step
            accuracy = max(0.0, 1 - loss) if task == "fashion-mnist" else math.nan
            directory.append_record(
                Record(
                    step=step,
                    epoch=step / 2,
                    training_seconds=seconds,
                    minibatch_training_loss=0.9 * loss if number else math.nan,
                    training_loss=loss,
                    validation_loss=1.2 * loss,
                    test_loss=1.5 * loss,
                    training_accuracy=accuracy,
                    validation_accuracy=accuracy,
                    test_accuracy=accuracy,
                    step_size=0.1,
                    damping=math.nan,
                    minibatch_training_accuracy=accuracy if number else math.nan,
                )
            )
        for number, place in enumerate(positions):
            directory.append_position(steps_between * number, place)
        own = np.interp(np.arange(last), np.arange(len(losses)) * steps_between, losses)
        directory.append_steps(
            StepReport(
                0.9 * own,
                np.geomspace(0.1, 0.01, last),
                np.geomspace(1e-3, 1e-6, last)
                if "qlr" in algorithm
                else np.full(last, np.nan),
                np.ones(last),
            )
        )
        summary = {
            "started": "2026-01-02T03:04:05+00:00",
            "caveats": [],
            "search": {},
            **manifest,
            "status": status,
        }
        known = msgspec.convert(identity | summary, Manifest)
        if known.status.is_final:
            directory.close(known)
        else:
            directory.write_manifest(known)
    return directory


def stored(store: Path, **options: Any) -> StoredRun:
    """Likewise, read back."""
    directory = write_run(store, **options)
    (run,) = [run for run in load(store).runs if run.name == directory.path.name]
    return run


def small_study(store: Path) -> None:
    """What a report has something of everything from: two tasks, sweeps, paths."""
    generator = np.random.default_rng(0)
    for seed in range(3):
        noise = lambda: float(generator.uniform(0.9, 1.1))
        for rate, end in ((1e-4, 0.02), (1e-3, 0.0006), (1e-2, 0.01)):
            write_run(
                store,
                seed=seed,
                losses=(1.0, 0.1, end * 1.1 * noise(), end * noise()),
                hyperparameters={"batch_size": 50, "learning_rate": rate},
                search={"learning_rate": {"low": 1e-6, "high": 1, "complement": False}},
            )
        for damping in (1e-4, 1e-3, 1e-2):
            write_run(
                store,
                algorithm="adamqlr-tuned",
                seed=seed,
                losses=(1.0, 0.05, 0.0004 * noise(), 0.0003 * noise()),
                hyperparameters={"batch_size": 50, "damping": damping},
                seconds_per_step=0.2,
            )
        write_run(
            store,
            task="fashion-mnist",
            algorithm="kfac",
            seed=seed,
            losses=(2.0, 0.5, 0.4 * noise()),
            budget={"epochs": 10},
            status="diverged" if seed == 2 else "finished",
            seconds_per_step=4.0,
        )
        write_run(
            store,
            task="fashion-mnist",
            algorithm="adamqlr-untuned",
            seed=seed,
            losses=(2.0, 0.6, 0.3 * noise()),
            budget={"epochs": 10},
        )
    write_run(
        store,
        task="rosenbrock",
        algorithm="adamqlr-hessian",
        scale="shown",
        budget={"steps": 20},
        losses=(4.0, 1.0, 0.1),
        positions=((1.0, -1.0), (0.5, 0.0), (0.9, 0.8)),
    )
