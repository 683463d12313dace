"""The tables: what they hold. How they are written is `render`'s affair."""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from qlrstudy import paper
from qlrstudy.report.comparison import (
    QUANTITIES,
    Compared,
    Comparison,
    Study,
    Verdict,
    titled,
)
from qlrstudy.report.groups import Group, Section
from qlrstudy.report.load import StoredRun
from qlrstudy.report.statistics import LOSSES, Estimate
from qlrstudy.report.styles import style
from qlrstudy.report.sweeps import Sweep

Entry = str | float | Estimate | Compared | None


class Table(NamedTuple):
    """A table, or in its place why there is none.

    Attributes:
        name: of its files.
        title: above it.
        header: one word or more for each column.
        rows: text, numbers, numbers with errors, numbers beside the paper's.
        note: what a reader must know to read it.
        missing: what it lacks, in words.
    """

    name: str
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    note: str = ""
    missing: tuple[str, ...] = ()


def results(compared: Sequence[Comparison], study: Study) -> Table:
    """Final statistics beside the paper's."""
    own = [row for row in compared if row.study == study]
    header = ("task", "algorithm", "runs", *[q.title for q in QUANTITIES])
    rows = [
        (
            *_who(row.group, row.how),
            *[_shown(row.numbers[quantity]) for quantity in QUANTITIES],
        )
        for row in own
    ]
    return Table(
        study.name.replace("_", "-"),
        f"{study.title}: final statistics",
        header,
        tuple(rows),
        "Ours / the paper's, and in brackets how many combined errors lie between. "
        "Medians over 50 bootstrap samples of the runs: mean ± deviation. Training "
        "loss and accuracy are those of the last minibatch, as in the paper; runs of "
        "before it was kept have no such accuracy. Our time is of training alone, the "
        "paper's holds an evaluation after each step. A run that diverged counts with "
        "its last finite values. Rows on partial data, or for less than the paper's "
        "budget, stand beside the paper's and are not judged.",
        tuple(_lacking(study, [row.group for row in own])),
    )


def section_results(part: Section) -> Table:
    """Final statistics of one section, of what its runs have: few tasks accuracies."""
    finals = [tuple(_finals(group)) for group in part.groups]
    had = [any(own[i] is not None for own in finals) for i in range(len(QUANTITIES))]
    titles = itertools.compress([q.title for q in QUANTITIES], had)
    rows = [
        (group.title, runs_of(group), *itertools.compress(own, had))
        for group, own in zip(part.groups, finals, strict=True)
    ]
    title = f"Final statistics: {part.title}"
    return Table(part.key, title, ("algorithm", "runs", *titles), tuple(rows))


def other_results(parts: Sequence[Section], compared: Sequence[Comparison]) -> Table:
    """Final statistics of what the paper has no table of."""
    known = {row.group for row in compared}
    header = ("task", "algorithm", "runs", *[q.title for q in QUANTITIES])
    rows = [
        (part.title, group.title, runs_of(group), *_finals(group))
        for part in parts
        for group in part.groups
        if group not in known
    ]
    missing = () if rows else ("no runs with another task, scale, budget or setting",)
    return Table(
        "other-results",
        "Other tasks, scales, budgets and settings: final statistics",
        header,
        tuple(rows),
        "As above, without the paper's. What has a task and budget of the paper's has "
        "another setting than the row that stands beside the paper's.",
        missing,
    )


def reproduction(found: Sequence[Verdict]) -> Table:
    """For each number that the paper has too: agrees, differs, or is explained."""
    rows = [
        (
            verdict.study.title,
            *_who(verdict.group),
            verdict.quantity.title,
            verdict.compared.ours,
            verdict.compared.theirs,
            round(verdict.compared.apart, 2),
            round(verdict.compared.relative, 3),
            verdict.word,
            "" if (why := verdict.explanation) is None else f"{why.text} ({why.link})",
        )
        for verdict in found
    ]
    header = ("study", "task", "algorithm", "runs", "quantity", "ours", "paper")
    missing = () if rows else ("no run with a task, scale and budget of the paper's",)
    return Table(
        "reproduction",
        "Reproduction: every number that the paper has too",
        (*header, "apart", "relative", "verdict", "explained by"),
        tuple(rows),
        "Agrees: within three combined errors, by ten runs or more. Undecided: so "
        "close, but by fewer. Differs: further, and nobody knows why. Relative: the "
        "difference as a share of the paper's value.",
        missing,
    )


def hyperparameters(parts: Sequence[Section]) -> Table:
    """The chosen setting of each algorithm, with the paper's choice."""
    whole = [part for part in parts if part.shape is None]
    groups = [(part, group) for part in whole for group in part.groups]
    names = sorted({name for _, group in groups for name, _ in group.setting})
    rows = [
        (part.title, group.title, float(len(group.runs)), *_settings(group, names))
        for part, group in groups
    ]
    return Table(
        "hyperparameters",
        "Chosen hyperparameters",
        ("task", "algorithm", "runs", *[name.replace("_", " ") for name in names]),
        tuple(rows),
        "The setting that a study chose; without one, that with most runs, or of "
        "several the one with the lowest final validation loss; in brackets the "
        "paper's choice, where it differs.",
    )


def search_spaces(found: Sequence[Group]) -> Table:
    """Where each algorithm is tuned, as its runs say, and on which tasks."""
    spaces: dict[tuple[str, str], dict[str, dict[str, None]]] = {}
    silent: dict[str, None] = {}
    for group in found:
        space, task = group.runs[0].search, group.runs[0].titles[0]
        if space is None:
            silent[group.title] = None
            continue
        for name, bounds in space.items():
            own = spaces.setdefault((group.title, name.replace("_", " ")), {})
            own.setdefault(_space(bounds), {})[task] = None
    rows = [
        (*key, space, ", ".join(tasks) if len(own) > 1 else "all")
        for key, own in spaces.items()
        for space, tasks in own.items()
    ]
    missing = []
    if silent:
        missing.append(
            f"runs of {'; '.join(silent)} do not say where they are tuned; they are "
            "from before that was stored"
        )
    # These have no settings of their own to tune; a study may still tune their batch.
    plain = [group for group in found if group.runs[0].search == {}]
    tuned = {group.title for group in plain if any(run.tuned for run in group.runs)}
    titles = dict.fromkeys(group.title for group in plain)
    kinds = {
        "Tuned in the batch alone": [title for title in titles if title in tuned],
        "Not tuned": [title for title in titles if title not in tuned],
    }
    return Table(
        "search-spaces",
        "Search spaces",
        ("algorithm", "hyperparameter", "space", "tasks"),
        tuple(rows),
        " ".join(f"{kind}: {'; '.join(own)}." for kind, own in kinds.items() if own),
        tuple(missing) if spaces or silent else ("no tuned algorithm was run",),
    )


def machines(runs: Sequence[StoredRun]) -> Table:
    """What runs were made on and with, below the paper's."""
    counts = Counter(_machine(run) for run in runs)
    theirs = [(name, "the paper's", *row) for name, row in paper.MACHINES.items()]
    ours = [(name, f"{count} runs", *row) for (name, *row), count in counts.items()]
    return Table(
        "machines",
        "Hardware and versions",
        ("machine", "runs", "processor", "devices", "Python", "JAX", "other packages"),
        (*theirs, *ours),
        "The paper's times are of GPUs; ours are of what is named here.",
        () if ours else ("runs that say what they were made on",),
    )


def _machine(run: StoredRun) -> tuple[str, ...]:
    known, versions = run.machine, dict(run.versions)
    python, jax = (versions.pop(name, "–") for name in ("python", "jax"))
    rest = ", ".join(f"{name} {version}" for name, version in versions.items()) or "–"
    if known is None:
        return ("–", "–", "–", python, jax, rest)
    cores = "" if known.cores is None else f", {known.cores} cores"
    devices = f"{known.backend}: {', '.join(sorted(set(known.devices)))}"
    return known.system, f"{known.processor}{cores}", devices, python, jax, rest


def sensitivity(swept: Sequence[Sweep]) -> Table:
    """Final losses along each sweep."""
    rows = [
        (
            line.groups[0].runs[0].titles[0],
            sweep.title,
            sweep.setting.replace("_", " "),
            value,
            line.shape,
            runs_of(group),
            *[group.finals[name] for name in LOSSES],
        )
        for sweep in swept
        for line in sweep.lines
        for value, group in zip(line.values, line.groups, strict=True)
    ]
    header = ("task", "algorithm", "setting", "value", "batch", "runs")
    losses = ("training loss", "validation loss", "test loss")
    return Table(
        "sensitivity",
        "Sensitivity to a setting, all else fixed",
        (*header, *losses),
        tuple(rows),
        "",
        () if rows else ("no algorithm was run with three values of one setting",),
    )


def _who(group: Group, how: str = "") -> tuple[str, str, str]:
    task, algorithm = group.runs[0].titles
    return task, algorithm, runs_of(group) + (f", {how}" if how else "")


def runs_of(group: Group) -> str:
    """How many, and how many of them diverged or are left out."""
    extra = [f"{group.diverged} diverged"] if group.diverged else []
    extra += [f"{group.unfinished} unfinished, left out"] if group.unfinished else []
    return f"{len(group.runs)}" + (f" ({', '.join(extra)})" if extra else "")


def _finals(group: Group) -> Iterator[Estimate | None]:
    for quantity in QUANTITIES:
        value = group.finals[quantity.ours]
        yield value if math.isfinite(value.value) else None


def _shown(both: Compared) -> Entry:
    if not math.isfinite(both.ours.value):
        return None
    return both if both.theirs else both.ours


def _lacking(study: Study, groups: Sequence[Group]) -> Iterator[str]:
    have = {
        (titled(group)[0].title, paper.TITLES.get(group.algorithm)) for group in groups
    }
    ours = {theirs: style(name).title for name, theirs in paper.TITLES.items()}
    rows = paper.table(study.name)
    pairs = [(row["dataset"], row["algorithm"]) for row in rows]
    lacking = [(task, ours[name]) for task, name in pairs if (task, name) not in have]
    if len(lacking) == len(rows):
        yield f"no runs of the paper's tasks with its budget in {study.unit}"
        return
    for task in dict.fromkeys(task for task, _ in lacking):
        names = "; ".join(algorithm for t, algorithm in lacking if t == task)
        yield f"{task}: no runs of {names}"


def _settings(group: Group, names: Sequence[str]) -> Iterator[str]:
    try:
        theirs = paper.hyperparameters(*titled(group))
    except ValueError:
        theirs = {}
    ours = dict(group.setting)
    for name in names:
        own, other = ours.get(name), theirs.get(name)
        differs = other is not None and own is not None and other != own
        yield (f"{own:g}" if own is not None else "–") + (
            f" ({other:g})" if differs else ""
        )


def _space(bounds: Mapping[str, Any]) -> str:
    if "choices" in bounds:
        return "one of " + ", ".join(f"{choice:g}" for choice in bounds["choices"])
    interval = f"[{bounds['low']:g}, {bounds['high']:g}]"
    return (
        f"one minus it, log {interval}" if bounds["complement"] else f"log {interval}"
    )
