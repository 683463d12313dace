"""What the command line shows at the end: tables of runs, tunings, costs."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from qlrstudy.cli.console import facts, say, table, tell
from qlrstudy.cluster.jobs import Ending, Job
from qlrstudy.spec import Record, Run
from qlrstudy.store.manifest import Status
from qlrstudy.studies.estimate import Cost, CostLine
from qlrstudy.training.outcome import Outcome
from qlrstudy.training.provenance import hyperparameters
from qlrstudy.tuning.search import Search

_OUT_OF_REACH = 2 * 86400.0  # seconds of one run


def summary(title: str, outcome: Outcome, caveats: Sequence[str]) -> None:
    """Print how a run ended."""
    record = outcome.record
    losses = [
        ("minibatch training loss", number(record.minibatch_training_loss)),
        *_lines(record, "loss"),
        *_lines(record, "accuracy"),
    ]
    before = ", found in the store: not trained again" if outcome.found else ""
    pairs = [
        ("status", f"{outcome.status}{before}"),
        ("steps (epochs)", f"{record.step:,} ({record.epoch:,.4g})"),
        ("training / compiling", _seconds(record, outcome.compile_seconds)),
        *losses,
        ("stored in", str(outcome.path)),
        *[("caveat", caveat) for caveat in caveats],
    ]
    facts(title, pairs)


def endings(title: str, ended: Sequence[tuple[Job, Ending]]) -> None:
    """Print what became of many runs, by task, algorithm and settings."""
    groups: dict[tuple[str, str, str], list[Ending]] = {}
    for job, ending in ended:
        settings = "(tuning)" if job.trial is not None else _hyperparameters(job.run)
        key = (job.run.task.name, job.run.algorithm.name, settings)
        groups.setdefault(key, []).append(ending)
    rows = [[*key, *_counts(group)] for key, group in groups.items()]
    header = ["task", "algorithm", "settings", "runs", "median training", "test loss"]
    table(title, header, rows)
    for job, ending in ended:
        if job.damage:
            say(f"{job.damage}; the run was done again")
        if ending.status == Status.FAILED:
            say(f"failed: {job.place}\n{ending.error.rstrip()}")


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
        if search.is_open():
            tell("no winner yet: not all trials have ended")
        return
    settings = ", ".join(f"{name} {value:.4g}" for name, value in best.items())
    tell(
        f"best: {settings}; {search.tuning.how.metric} {number(winner.score)} "
        f"(trial {winner.trial}); {search.directory.path / 'best.json'}"
    )


def costs(title: str, lines: Sequence[CostLine], workers: int | None) -> None:
    """Print what a study would run, and how long that would train."""
    rows = [
        [
            line.task,
            line.algorithm,
            line.what,
            f"{line.missing} of {line.runs}",
            _cost(line.cost),
            ", ".join(sorted(line.cost.sources)),
        ]
        for line in lines
    ]
    header = ["task", "algorithm", "runs of", "to do", "training time", "cost from"]
    table(title, header, rows)
    seconds = sum(line.cost.seconds for line in lines)
    unknown = sum(line.cost.unknown for line in lines)
    count = sum(line.missing for line in lines)
    beside = sum(line.beside.seconds for line in lines)
    runs = f"{count:,} runs to do: about {duration(seconds)} of training"
    runs += f" and {duration(beside)} of compiling and evaluation" * (beside > 0)
    share = (seconds + beside) / (workers or 1)
    shared = f", {duration(share)} on {workers} workers" if workers else ""
    more = f"; {unknown:,} runs more, of unknown cost" if unknown else ""
    tasks = sorted({task for line in lines for task in line.beside.unknown})
    which = "those" if beside else "compiling and evaluation"
    top = f"; {which} of {', '.join(tasks)} come on top"
    tell(f"{runs}{shared}{more}{top if tasks else ''}")
    _tell_out_of_reach(lines)


def taken_for_whole(tasks: Sequence[str]) -> None:
    """Name the tasks of which nobody knows what part of the data is at hand."""
    if tasks:
        tell(
            f"estimated for all data of {', '.join(tasks)}: an estimate reads none, "
            "and does not know what part is at hand until the store has a run on it"
        )


def _tell_out_of_reach(lines: Sequence[CostLine]) -> None:
    """Name what no machine like the one of the estimate will ever do."""
    longest: dict[str, dict[str, float]] = {}
    for line in lines:
        own = longest.setdefault(line.task, {})
        own[line.algorithm] = max(own.get(line.algorithm, 0.0), line.cost.longest)
    for task, own in longest.items():
        long = {name: s for name, s in own.items() if s > _OUT_OF_REACH}
        if long:
            runs = ", ".join(f"{duration(s)} ({name})" for name, s in long.items())
            tell(
                f"out of reach of one core: a run on {task} alone takes up to {runs}; "
                "`--scale laptop` is the same study on a smaller model, and an "
                "accelerator is faster"
            )


def _cost(cost: Cost) -> str:
    known = duration(cost.seconds) if cost.sources else ""
    unknown = f"{cost.unknown} unknown" if cost.unknown else ""
    return " + ".join(filter(None, (known, unknown))) or "–"


def duration(seconds: float) -> str:
    """Seconds, minutes, hours or days, whichever is short."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
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
    losses = [r.training_loss for r in records], [r.test_loss for r in records]
    return [said, *(number(_median(x)) if x else "–" for x in losses)]


def _median(losses: Sequence[float]) -> float:
    """The middle one; what is not a number is worse than any."""
    ranked = [math.inf if math.isnan(loss) else loss for loss in losses]
    return statistics.median(ranked)


def number(value: float) -> str:
    """Four digits, or a dash for what there is not."""
    return "–" if math.isnan(value) else f"{value:.4g}"


def _lines(record: Record, quantity: str) -> list[tuple[str, str]]:
    values = record._asdict()
    names = [f"{split}_{quantity}" for split in ("training", "validation", "test")]
    return [
        (name.replace("_", " "), number(values[name]))
        for name in names
        if not math.isnan(values[name]) or quantity == "loss"
    ]


def _seconds(record: Record, compile_seconds: float) -> str:
    return f"{record.training_seconds:.3g} s / {compile_seconds:.3g} s"
