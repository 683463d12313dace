"""All commands and their arguments; what one needs is loaded when it is called.

Nothing of the study is loaded to parse them, to say what they do, or to complete them.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Group, Parameter

from qlrstudy.cli import options
from qlrstudy.cli.options import Changes, Cluster, Directory, Place, Settings

_RUNS, _NAMES = Group("Train", sort_key=1), Group("What there is", sort_key=2)
_RESULTS = Group("Results", sort_key=3)
_MORE = Group("More", sort_key=4)


def _default(value: object) -> str | None:
    """How a default is shown: not at all where an option is off unless given."""
    return None if value in (None, ()) or value is False else str(value)


app = App(
    "qlrstudy",
    help="AdamQLR's experiments: tasks, algorithms, tuning, studies, reports.\n\n"
    "Begin with `qlrstudy run digits adamqlr`: bundled data, half a minute.",
    version=lambda: f"qlrstudy of adamqlr {version('adamqlr')}",
    default_parameter=Parameter(negative=(), show_default=_default),
    help_format="markdown",
    group_commands=_MORE,
)
app.register_install_completion_command(
    help="Let your shell complete commands, options and names."
)


# --- training -------------------------------------------------------------------


@app.command(group=_RUNS, sort_key=1)
def run(
    task: options.TaskName,
    algorithm: options.AlgorithmName,
    /,
    *,
    json: bool = False,
    settings: Settings = Settings(),
    place: Place = Place(),
) -> int:
    """Train one algorithm on one task, once; what the store has is not done again.

    Example: `qlrstudy run digits adamqlr`

    Args:
        task: what is learnt; see `qlrstudy tasks`.
        algorithm: what learns it; see `qlrstudy algorithms`.
        json: print the result as one line of JSON.
    """
    from qlrstudy.cli.run import run

    return run(task, algorithm, settings, place, as_json=json)


@app.command(group=_RUNS, sort_key=2)
def repeat(
    task: options.TaskName,
    algorithm: options.AlgorithmName,
    /,
    *,
    repetitions: options.Count = 50,
    settings: Settings = Settings(),
    place: Place = Place(),
    cluster: Cluster = Cluster(),
) -> int:
    """Train with many seeds, in parallel.

    Example: `qlrstudy repeat digits adamqlr --repetitions 5`

    Args:
        task: what is learnt; see `qlrstudy tasks`.
        algorithm: what learns it; see `qlrstudy algorithms`.
        repetitions: how many seeds, from `--seed` on.
    """
    from qlrstudy.cli.repeat import repeat

    return repeat(task, algorithm, repetitions, settings, place, cluster)


@app.command(group=_RUNS, sort_key=3)
def tune(
    task: options.TaskName,
    algorithm: options.AlgorithmName,
    /,
    *,
    scale: str = "paper",
    samples: options.Count = 200,
    metric: options.Metric = "validation_loss",
    resource: options.Resource = "seconds",
    seconds: options.Amount | None = None,
    seed: options.TuningSeed = 0,
    place: Place = Place(),
    cluster: Cluster = Cluster(),
) -> int:
    """Search an algorithm's settings by ASHA.

    Example: `qlrstudy tune digits adam --samples 20 --resource epochs`

    Args:
        task: what is learnt; see `qlrstudy tasks`.
        algorithm: what is tuned; see `qlrstudy algorithms`.
        scale: of the task.
        samples: settings tried.
        metric: what counts, at the end of a trial.
        resource: what ASHA counts: seconds of training, at most 900, or epochs.
        seconds: of each trial, in place of the task's epochs.
        seed: of all chance.
    """
    from qlrstudy.cli.tune import tune
    from qlrstudy.tuning.rule import Tuned

    how = Tuned(samples, metric, resource, seed=seed)
    return tune(task, algorithm, scale, how, seconds, place, cluster)


@app.command(group=_RUNS, sort_key=4)
def study(
    name: options.StudyName,
    /,
    *,
    scale: Literal["paper", "laptop", "smoke"] = "paper",
    dry_run: bool = False,
    changes: Changes = Changes(),
    place: Place = Place(),
    cluster: Cluster = Cluster(),
) -> int:
    """Do a whole study: tune, repeat, on all cores; again, it goes on.

    Example: `qlrstudy study any-batch --tasks digits --dry-run`

    Args:
        name: see `qlrstudy studies`.
        scale: the paper's, or less.
        dry_run: list the runs, and the time they need.
    """
    from qlrstudy.cli.study import study

    return study(name, scale, changes, place, cluster, dry_run=dry_run)


# --- what there is --------------------------------------------------------------


@app.command(group=_NAMES, sort_key=5)
def tasks(*, json: bool = False) -> int:
    """List what can be learnt.

    Example: `qlrstudy tasks`

    Args:
        json: as one line of JSON.
    """
    from qlrstudy.cli import lists

    return lists.tasks(as_json=json)


@app.command(group=_NAMES, sort_key=6)
def algorithms(*, json: bool = False) -> int:
    """List what can learn it, with each setting's default and range.

    Example: `qlrstudy algorithms`

    Args:
        json: as one line of JSON.
    """
    from qlrstudy.cli import lists

    return lists.algorithms(as_json=json)


@app.command(group=_NAMES, sort_key=7)
def studies(*, json: bool = False) -> int:
    """List what can be studied.

    Example: `qlrstudy studies`

    Args:
        json: as one line of JSON, with tasks and algorithms.
    """
    from qlrstudy.cli import lists

    return lists.studies(as_json=json)


# --- results --------------------------------------------------------------------


@app.command(group=_RESULTS, sort_key=8)
def status(store: Directory = Path("runs"), /, *, json: bool = False) -> int:
    """Say what a store has, and lacks.

    Example: `qlrstudy status runs`

    Args:
        store: the directory of all runs.
        json: as one line of JSON.
    """
    from qlrstudy.cli.status import status

    return status(store, as_json=json)


@app.command(group=_RESULTS, sort_key=9)
def report(
    store: Path = Path("runs"),
    /,
    *,
    output: Annotated[Path, Parameter(alias="-o", metavar="DIR")] = Path("report"),
    figures: Literal["none", "svg", "all"] = "all",
) -> int:
    """Write a store's page, tables and figures, and say who wins.

    Example: `qlrstudy report runs -o report`

    Args:
        store: the directory of all runs, or a file that pack made of it; only read.
        output: where to write; a report there is replaced.
        figures: none, as SVG, or as SVG, PDF and PNG, which take most of the time.
    """
    from qlrstudy.cli.report import report

    return report(store, output, figures)


@app.command(group=_RESULTS, sort_key=10)
def pack(store: Directory, file: Path, /) -> int:
    """Write a store's results as one small file.

    Example: `qlrstudy pack runs results.parquet`

    Args:
        store: the directory of all runs; only read.
        file: to be written.
    """
    from qlrstudy.cli.pack import pack

    return pack(store, file)


@app.command(group=_RESULTS, sort_key=11)
def unpack(file: Path, store: Directory, /) -> int:
    """Make a store of such a file, to report on or to go on with.

    Example: `qlrstudy unpack results/any-batch.parquet any-batch`

    Args:
        file: only read.
        store: the directory to be made.
    """
    from qlrstudy.cli.pack import unpack

    return unpack(file, store)


_export = App("export", help="Write a store for another program.", group=_RESULTS)
app.command(_export)


@_export.command
def tensorboard(store: Path, directory: Directory, /) -> int:
    """Write event files, one for each run.

    Example: `qlrstudy export tensorboard runs events`

    Args:
        store: the directory of all runs, or a file that pack made of it; only read.
        directory: where to write.
    """
    from qlrstudy.cli.report import export

    return export(store, directory)


# --- data -----------------------------------------------------------------------

_data = App("data", help="List, download or verify what is learnt from.", group=_NAMES)
app.command(_data)


@_data.command(name="list")
def list_data(*, data_dir: Directory | None = None, json: bool = False) -> int:
    """List the sets, and what is here of them.

    Example: `qlrstudy data list`

    Args:
        data_dir: the publishers' files; by default QLR_DATA, or the download cache.
        json: as one line of JSON.
    """
    from qlrstudy.cli import data

    return data.list_(data_dir, as_json=json)


@_data.command
def fetch(*sets: options.SetName, data_dir: Directory | None = None) -> int:
    """Download sets, with checksums.

    Example: `qlrstudy data fetch fashion-mnist`

    Args:
        sets: by name; all, if none is given.
        data_dir: where to; by default QLR_DATA, or the download cache.
    """
    from qlrstudy.cli import data

    return data.fetch(sets, data_dir)


@_data.command
def verify(
    *sets: options.SetName, data_dir: Directory | None = None, json: bool = False
) -> int:
    """Read each file of sets and check it.

    Example: `qlrstudy data verify uci-energy`

    Args:
        sets: by name; all, if none is given.
        data_dir: the publishers' files; by default QLR_DATA, or the download cache.
        json: as one line of JSON.
    """
    from qlrstudy.cli import data

    return data.verify(sets, data_dir, as_json=json)
