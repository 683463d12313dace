"""A store for people who live in TensorBoard: one event file for each run."""

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from qlrstudy.report.load import Damage, StoredRun, load
from qlrstudy.report.statistics import ACCURACIES, LOSSES

# Their classes are made as they are loaded, where no type checker sees them.
_EVENTS: Any = event_pb2
_SUMMARIES: Any = summary_pb2
_TENSORS: Any = tensor_pb2
_TYPES: Any = types_pb2

_AT_EVALUATIONS = (*LOSSES, *ACCURACIES, "minibatch_training_loss")


def export(
    store: Path,
    directory: Path,
    watch: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> tuple[int, list[Damage]]:
    """Write every readable run, and return how many, and what could not be read.

    Args:
        store: the directory of all runs; only read.
        directory: where to write; each run has a folder of its name in it.
        watch: told what is being done, and how much of it.

    Raises:
        ValueError: there is nothing to export, or nothing can be written.
    """
    loaded = load(store, lambda done, total: watch("reading runs", done, total))
    for done, run in enumerate(loaded.runs, 1):
        try:
            _write(run, directory / run.name)
        except OSError as error:
            raise ValueError(
                f"DIR {str(directory)!r}: cannot write {error.filename or directory}: "
                f"{error.strerror or error}; choose another directory"
            ) from error
        watch("writing events", done, len(loaded.runs))
    return len(loaded.runs), loaded.damage


def _write(run: StoredRun, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    writer = EventFileWriter(str(folder))
    writer.add_event(
        _EVENTS.Event(wall_time=_started(run), step=0, summary=_setting(run))
    )
    for step, seconds, tag, value in _scalars(run):
        summary = _SUMMARIES.Summary(
            value=[_SUMMARIES.Summary.Value(tag=tag, simple_value=value)]
        )
        time = _started(run) + seconds
        writer.add_event(_EVENTS.Event(wall_time=time, step=step, summary=summary))
    writer.close()


def _scalars(run: StoredRun) -> Iterator[tuple[int, float, str, float]]:
    """Step, training seconds, tag and value: at evaluations, then at kept steps."""
    records = run.records
    for name in _AT_EVALUATIONS:
        columns = (records["step"], records["training_seconds"], records[name])
        rows = zip(*columns, strict=True)
        for step, seconds, value in rows:
            if np.isfinite(value):
                yield int(step), float(seconds), f"evaluation/{name}", float(value)
    times = np.interp(run.steps, records["step"], records["training_seconds"])
    for name, values in (("step_size", run.step_size), ("damping", run.damping)):
        for step, seconds, value in zip(run.steps, times, values, strict=True):
            if np.isfinite(value):
                yield int(step), float(seconds), f"step/{name}", float(value)


def _setting(run: StoredRun) -> Any:
    """The setting as a text that TensorBoard shows."""
    named = {"task": run.titles[0], "algorithm": run.titles[1], "scale": run.scale}
    named |= {"budget": str(run.budget), "status": run.status, "seed": str(run.seed)}
    named |= {name: repr(value) for name, value in run.hyperparameters.items()}
    text = "\n".join(f"    {name}: {value}" for name, value in named.items())
    tensor = _TENSORS.TensorProto(dtype=_TYPES.DT_STRING, string_val=[text.encode()])
    tensor.tensor_shape.dim.add().size = 1
    plugin = _SUMMARIES.SummaryMetadata.PluginData(plugin_name="text")
    metadata = _SUMMARIES.SummaryMetadata(plugin_data=plugin)
    return _SUMMARIES.Summary(
        value=[
            _SUMMARIES.Summary.Value(tag="setting", tensor=tensor, metadata=metadata)
        ]
    )


def _started(run: StoredRun) -> float:
    """When the run began; time's own beginning where nobody wrote that down."""
    try:
        return datetime.datetime.fromisoformat(run.started).timestamp()
    except ValueError:
        return 0.0
