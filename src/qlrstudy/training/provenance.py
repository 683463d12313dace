"""What a run was made of: its identity, and the machine and versions it ran with."""

import datetime
import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import NamedTuple

import jax
import msgspec

from qlrstudy.spec import Complement, Dataset, Run
from qlrstudy.store.manifest import (
    SCHEMA,
    Identity,
    Machine,
    Manifest,
    SearchRange,
    Status,
    Titles,
)

_PACKAGES = ("adamqlr", "jax", "jaxlib", "optax", "flax", "kfac-jax", "numpy")


class DataIdentity(NamedTuple):
    """What tells data from any other: files by their sums, splits by their sizes."""

    sums: dict[str, str]
    examples: dict[str, int]


def data_identity(data: Dataset) -> DataIdentity:
    """What is kept of the data in a manifest."""
    splits = {"train": data.train, "validation": data.validation, "test": data.test}
    return DataIdentity(
        {file.name: file.sha256 for file in data.sources},
        {name: len(split.inputs) for name, split in splits.items()},
    )


def identity(run: Run, data: DataIdentity) -> Identity:
    """All that decides a run's numbers; two runs are one if these agree."""
    return Identity(
        schema=SCHEMA,
        task=run.task.name,
        scale=run.task.scale,
        algorithm=run.algorithm.name,
        hyperparameters=hyperparameters(run),
        seed=run.seed,
        budget={run.budget.unit: run.budget.amount},
        data=data.sums,
        examples=data.examples,
        version=run.algorithm.version,
    )


def hyperparameters(run: Run) -> dict[str, float]:
    """The batch's shape and the algorithm's settings, by name."""
    batch: dict[str, float] = {"batch_size": run.shape.size}
    if run.shape.length is not None:
        batch["sequence_length"] = run.shape.length
    return batch | dict(run.settings)


def search_space(run: Run) -> dict[str, SearchRange]:
    """Where the settings are tuned; the batch is tuned with the others."""
    space = {
        name: SearchRange(
            low=bounds.low,
            high=bounds.high,
            complement=isinstance(bounds, Complement),
        )
        for name, bounds in run.task.searched(run.algorithm).items()
    }
    choices = {
        "batch_size": run.task.batch_sizes,
        "sequence_length": run.task.sequence_lengths,
    }
    tuned = {name: SearchRange(choices=list(c)) for name, c in choices.items() if c}
    return tuned | space if space else {}


def caveats(run: Run, data: Dataset) -> list[str]:
    """Why the numbers are not those of the paper's protocol; none if they are."""
    found = []
    if run.task.scale == "laptop":
        found.append("laptop scale: a smaller model, fewer examples or steps")
    if data.incomplete is not None:
        found.append(f"partial data: {data.incomplete}")
    return found


def manifest(run: Run, data: Dataset) -> Manifest:
    """What is known of a run as it begins."""
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Manifest(
        **msgspec.structs.asdict(identity(run, data_identity(data))),
        status=Status.RUNNING,
        titles=Titles(run.task.title, run.algorithm.title),
        search=search_space(run),
        caveats=tuple(caveats(run, data)),
        sources=data.sources,
        started=started,
        versions=_versions(),
        commit=_commit(),
        machine=Machine(
            host=platform.node(),
            system=platform.platform(),
            processor=platform.processor() or platform.machine(),
            cores=os.cpu_count(),
            backend=jax.default_backend(),
            devices=[device.device_kind for device in jax.devices()],
        ),
    )


@functools.cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@functools.cache
def _commit() -> str | None:
    """The commit the code was run from, marked where files were changed since."""
    describe = ["git", "describe", "--always", "--abbrev=40", "--dirty"]
    try:
        done = subprocess.run(
            [*describe, "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
