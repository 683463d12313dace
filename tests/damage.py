"""Damage to a store, and what each command makes of it."""

import contextlib
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.cli.main import main
from qlrstudy.report.load import load
from qlrstudy.spec import BatchShape, Budget, DataOptions, Run
from qlrstudy.store import archive, studies
from qlrstudy.store.files import StoreError
from qlrstudy.store.runs import RunDirectory, read_runs
from qlrstudy.store.status import contents
from qlrstudy.store.studies import StudyEntry
from qlrstudy.store.tunings import Entry, Event, TuningDirectory
from qlrstudy.store.unpacking import unpack
from qlrstudy.tasks import TASKS
from qlrstudy.training.provenance import data_identity
from qlrstudy.training.train import train
from qlrstudy.tuning import space
from qlrstudy.tuning.rule import Tuned

Mutation = Callable[[bytes, np.random.Generator], bytes]
TASK = TASKS["rosenbrock"]["shown"]
DATA = TASK.load(DataOptions())


def _flip(content: bytes, generator: np.random.Generator) -> bytes:
    changed = bytearray(content)
    changed[generator.integers(len(changed))] ^= 1 << int(generator.integers(8))
    return bytes(changed)


def _cut(content: bytes, generator: np.random.Generator) -> bytes:
    return content[: generator.integers(len(content))]


def _hole(content: bytes, generator: np.random.Generator) -> bytes:
    start, end = sorted(generator.integers(0, len(content), 2))
    return content[:start] + bytes(end - start) + content[end:]


def _lost_line(content: bytes, generator: np.random.Generator) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[generator.integers(len(lines))]
    return b"".join(lines)


def _other_digit(content: bytes, generator: np.random.Generator) -> bytes:
    places = [match.start() for match in re.finditer(rb"\d", content)] or [0]
    place = places[generator.integers(len(places))]
    digit = b"7" if content[place : place + 1] != b"7" else b"3"
    return content[:place] + digit + content[place + 1 :]


def _wrong_type(content: bytes, generator: np.random.Generator) -> bytes:
    numbers = [*re.finditer(rb"-?\d+(\.\d+)?(e[+-]?\d+)?", content)]
    if not numbers:
        return b'"text"'
    match = numbers[generator.integers(len(numbers))]
    return content[: match.start()] + b'"text"' + content[match.end() :]


MUTATIONS: dict[str, Mutation] = {
    "flip": _flip,
    "cut": _cut,
    "half": lambda content, generator: content[: len(content) // 2],
    "empty": lambda content, generator: b"",
    "garbage": lambda content, generator: generator.bytes(len(content)),
    "hole": _hole,
    "lost line": _lost_line,
    "other digit": _other_digit,
    "wrong type": _wrong_type,
    "later schema": lambda content, generator: b'{"schema": 99, "x": [1]}\n',
}


def _run(seed: int) -> Run:
    algorithm = ALGORITHMS["adam-untuned"]
    shape, budget = BatchShape(1), Budget("steps", 12)
    return Run(TASK, algorithm, algorithm.defaults, shape, seed, budget)


def make_store(store: Path) -> Path:
    """Two runs that have ended, one that has not, a study that has all, a tuning."""
    ended = [train(_run(seed), DATA, store) for seed in (0, 1)]
    cut = train(_run(2), DATA, store, should_stop=lambda: True)
    runs = [outcome.path.name for outcome in (*ended, cut)]
    entry = StudyEntry("rosenbrock", "shown", "adam-untuned", False, {}, {}, runs)
    studies.enter(studies.study_file(store, "some", "paper"), "some", "Some", [entry])
    _make_tuning(store)
    return store


def _make_tuning(store: Path) -> None:
    """What a search leaves, as an archive has it: without its trials' runs."""
    how = Tuned(samples=3, resource="epochs")
    tuning = space.Tuning(TASK, ALGORITHMS["sgd-minimal"], how, Budget("steps", 12))
    identity = space.identity(tuning, data_identity(DATA))
    directory = TuningDirectory(store / space.place(identity))
    directory.begin(identity)
    for trial, loss in enumerate((3.0, 1.0, 2.0)):
        directory.append(Entry(trial, Event.CONTINUE, 1.0, loss, 1.0))
        directory.append(Entry(trial, Event.FINISHED, 12.0, loss))
    directory.finish(space.hyperparameters(tuning, 1))


# What a user may ask of a store; `{}` is the store, and `beside` a folder to write in.
_SAME = ["--scale", "shown", "--steps", "12", "--json", "--store", "{}"]
_BEST = ["--hyperparameters", "best"]
COMMANDS = {
    "status": ["status", "{}"],
    "report": ["report", "{}", "-o", "beside/report", "--figures", "none"],
    "pack": ["pack", "{}", "beside/x.parquet"],
    "export": ["export", "tensorboard", "{}", "beside/events"],
    "run": ["run", "rosenbrock", "adam-untuned", *_SAME],
    "resume": ["run", "rosenbrock", "adam-untuned", "--seed", "2", *_SAME],
    "run the best": ["run", "rosenbrock", "sgd-minimal", *_BEST, *_SAME],
    "study": ["study", "demo", "--dry-run", "--store", "{}"],
}
LOOKS = ("status", "report", "pack", "export")
_COMPLAINT = re.compile("damaged|cannot|left out|error|schema|lacks|is gone", re.I)


class Answer(NamedTuple):
    """What a command said: its exit code, all lines, and the results among them."""

    code: int
    lines: list[str]
    result: dict[str, str]


def ask(command: str, store: Path, beside: Path) -> Answer:
    """Give a command, in this process; what it does not explain is raised."""
    words = [
        word.replace("{}", str(store)).replace("beside", str(beside))
        for word in COMMANDS[command]
    ]
    beside.mkdir(exist_ok=True)
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        code = main(words)
    said, result = out.getvalue(), {}
    if "--json" in words and code == 0:
        found = json.loads(said)
        names = ("hyperparameters", "status", "steps", "training_loss", "test_loss")
        result = {name: repr(found[name]) for name in names}
    return Answer(code, (said + err.getvalue()).splitlines(), result)


def complaint(command: str, whole: Answer, answer: Answer, path: Path) -> str:
    """What is wrong with an answer after damage to a file; empty if nothing is."""
    if command in LOOKS and answer.code > 1:
        return f"did not serve what is left: {answer.lines[-1]}"
    new = [line for line in answer.lines if line not in whole.lines]
    new = [line for line in new if not line.startswith("name\t")]  # heads of tables
    complaints = [line for line in new if _COMPLAINT.search(line)]
    if answer.code != whole.code and not complaints:
        return f"ended with {answer.code} and did not say why"
    unnamed = [line for line in complaints if path.name not in line]
    if unnamed:
        return f"did not name the file: {unnamed[0]}"
    if answer.result and answer.result != whole.result:
        return f"silently wrong: {answer.result}"
    return ""


class Seen(NamedTuple):
    """What a store says: the runs of its archive, of a report, and after a resume."""

    packed: dict[str, str]
    reported: dict[str, str]
    resumed: dict[str, str]
    said: str


def look(store: Path, beside: Path) -> Seen:
    """Use every room that reads a store; what each says of damage is kept."""
    found = contents(store)
    said = [str(problem) for problem in found.damage]
    shutil.rmtree(beside, ignore_errors=True)
    packed, unread = archive.pack(store, beside / "x.parquet")
    said += map(str, unread)
    unpack(beside / "x.parquet", beside / "back")
    loaded = load(store)
    said += [f"{damage.run}: {damage.problem}" for damage in loaded.damage]
    resumed = {}
    for seed in range(3):
        try:
            outcome = train(_run(seed), DATA, store)
        except StoreError as error:
            said.append(str(error))
            continue
        said.append(outcome.damage)
        resumed[outcome.path.name] = repr(outcome.record.test_loss)
    back = read_runs(beside / "back").manifests
    return Seen(
        {path.name: repr(RunDirectory(path).records()) for path in back},
        {
            run.name: repr({n: c.tolist() for n, c in run.records.items()})
            for run in loaded.runs
            if run.complete
        },
        resumed,
        "\n".join(said),
    )


def verdict(whole: Seen, seen: Seen, name: str) -> str:
    """`survived`, or what went wrong after damage to the file of that name."""
    for before, after in zip(whole[:3], seen[:3], strict=True):
        for run, value in after.items():
            if value != before.get(run):
                return "silently wrong"
        if before.keys() - after.keys() and name not in seen.said:
            return "lost"
    return "survived"
