"""What the command line shows: live progress, and tables at the end."""

import contextlib
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from qlrstudy.cli.console import ERR as ERR
from qlrstudy.cli.console import OUT as OUT
from qlrstudy.cli.console import table as table
from qlrstudy.cluster.jobs import Ending, Job
from qlrstudy.spec import Record, Run
from qlrstudy.store.status import STATES, Count
from qlrstudy.studies.estimate import Estimate, Line
from qlrstudy.training import train
from qlrstudy.training.provenance import hyperparameters
from qlrstudy.tuning.search import Search


@contextlib.contextmanager
def live(title: str) -> Iterator[Callable[[train.Progress], None]]:
    """A line that follows a run: epoch, losses, step size, damping, time left."""
    columns = [
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    ]
    quiet = not ERR.is_terminal
    with Progress(*columns, console=ERR, transient=True, disable=quiet) as progress:
        line = progress.add_task(title, total=1.0, state="compiling")

        def watch(now: train.Progress) -> None:
            state = (
                f"epoch {now.epoch:.4g}  "
                f"minibatch loss {number(float(now.report.loss))}  "
                f"validation loss {number(now.record.validation_loss)}  "
                f"step size {number(float(now.report.step_size))}  "
                f"damping {number(float(now.report.damping))}"
            )
            progress.update(line, completed=now.done, state=state)

        yield watch


def summary(title: str, outcome: train.Outcome, caveats: Sequence[str]) -> None:
    """Print how a run ended."""
    record = outcome.record
    losses = [
        ["minibatch training loss", number(record.minibatch_training_loss)],
        *_lines(record, "loss"),
        *_lines(record, "accuracy"),
    ]
    rows = [
        ["status", outcome.status],
        ["steps (epochs)", f"{record.step:,} ({record.epoch:,.4g})"],
        ["training / compiling", _seconds(record, outcome.compile_seconds)],
        *losses,
        ["stored in", str(outcome.path)],
        *[["caveat", caveat] for caveat in caveats],
    ]
    table(title, ["", ""], rows)


def endings(title: str, ended: Sequence[tuple[Job, Ending]]) -> None:
    """Print what became of many runs, by task, algorithm and settings."""
    groups: dict[tuple[str, str, str], list[Ending]] = {}
    for job, ending in ended:
        trial = job.pauses is not None
        settings = "(tuning)" if trial else _hyperparameters(job.run)
        key = (job.run.task.name, job.run.algorithm.name, settings)
        groups.setdefault(key, []).append(ending)
    rows = [[*key, *_counts(group)] for key, group in groups.items()]
    header = ["task", "algorithm", "settings", "runs", "median training", "test loss"]
    table(title, header, rows)
    for job, ending in ended:
        if ending.status == "failed":
            name = f"failed: {job.place}\n{ending.error.rstrip()}"
            ERR.print(name, markup=False, highlight=False, soft_wrap=True)


def tuning(search: Search) -> None:
    """Print a tuning's rungs and what won."""
    rows = [
        [f"{milestone:g}", str(reached), str(on)]
        for milestone, reached, on in search.rungs()
    ]
    table("ASHA", [f"rung at {search.field}", "reached", "went on"], rows)
    best = search.directory.best()
    winner = search.best()
    if best is None or winner is None:
        OUT.print("no winner yet: not all trials have ended, or none finished")
        return
    settings = ", ".join(f"{name} {value:.4g}" for name, value in best.items())
    OUT.print(
        f"best: {settings}; {search.tuning.how.metric} {number(winner.loss)} "
        f"(trial {winner.trial}); {search.directory.path / 'best.json'}",
        highlight=False,
        soft_wrap=True,
    )


def estimate(title: str, lines: Sequence[Line], workers: int | None) -> None:
    """Print what a study would run, and how long that would train."""
    rows = [
        [
            line.task,
            line.algorithm,
            line.what,
            f"{line.missing} of {line.runs}",
            _estimated(line.estimate),
            ", ".join(sorted(line.estimate.sources)),
        ]
        for line in lines
    ]
    header = ["task", "algorithm", "runs of", "to do", "training time", "cost from"]
    table(title, header, rows)
    seconds = sum(line.estimate.seconds for line in lines)
    unknown = sum(line.estimate.unknown for line in lines)
    count = sum(line.missing for line in lines)
    runs = f"{count:,} runs to do: about {duration(seconds)} of training"
    share = f", {duration(seconds / workers)} on {workers} workers" if workers else ""
    more = f"; {unknown:,} runs more, of unknown cost" if unknown else ""
    said = f"{runs}{share}{more}; compiling and evaluation come on top"
    OUT.print(said, highlight=False, soft_wrap=True)


def _estimated(estimate: Estimate) -> str:
    known = duration(estimate.seconds) if estimate.sources else ""
    unknown = f"{estimate.unknown} unknown" if estimate.unknown else ""
    return " + ".join(filter(None, (known, unknown))) or "–"


def states(title: str, counts: Sequence[Count]) -> None:
    """Print how many runs are in which state, if there are any."""
    names = dict.fromkeys(name for count in counts for name in count.states)
    header = [n for n in (*STATES, "stopped", "missing") if n in names]
    rows = [
        [count.name, *(str(count.states[name] or "") for name in header)]
        for count in counts
    ]
    if rows:
        table(title, ["", *header], rows)


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever is short."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _hyperparameters(run: Run) -> str:
    """Those that are not the algorithm's defaults."""
    chosen = hyperparameters(run).items()
    shown = {k: v for k, v in chosen if run.algorithm.defaults.get(k) != v}
    return ", ".join(f"{k} {v:.4g}" for k, v in shown.items())


def _counts(ended: Sequence[Ending]) -> list[str]:
    counts = Counter(ending.status for ending in ended)
    said = ", ".join(f"{n} {status}" for status, n in counts.items())
    records = [e.record for e in ended if e.record is not None]
    medians = [
        number(statistics.median([getattr(r, name) for r in records]))
        if records
        else "–"
        for name in ("training_loss", "test_loss")
    ]
    return [said, *medians]


def number(value: float) -> str:
    """Four digits, or a dash for what there is not."""
    return "–" if math.isnan(value) else f"{value:.4g}"


def _lines(record: Record, quantity: str) -> list[list[str]]:
    values = record._asdict()
    names = [f"{split}_{quantity}" for split in ("training", "validation", "test")]
    return [
        [name.replace("_", " "), number(values[name])]
        for name in names
        if not math.isnan(values[name]) or quantity == "loss"
    ]


def _seconds(record: Record, compile_seconds: float) -> str:
    return f"{record.training_seconds:.3g} s / {compile_seconds:.3g} s"
