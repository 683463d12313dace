"""Attacks on a store, and a table of what came of them.

    python benchmarks/attack.py --tries 100

Kills: a run is killed by SIGKILL at random moments and then finished: its steps and
evaluations must be those of a run that nobody killed, to the last bit. Mutations: a
random file of a store is damaged in a random way, and every room that reads stores is
asked; commands: likewise, through the command line, by one command after the other,
which must name the file; `tests/damage.py` has both. Hostile: files from outside with
names that a store does not have are unpacked. *Lost* is a run that is gone without a
word, *doubled* an evaluation that is there twice, *silently wrong* a number that
differs.
"""

import argparse
import collections
import multiprocessing
import random
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.append(str(Path(__file__).parents[1] / "tests"))

import damage  # noqa: E402  # pyright: ignore[reportMissingImports]
from qlrstudy.algorithms import ALGORITHMS  # noqa: E402
from qlrstudy.spec import BatchShape, Budget, DataOptions, Run  # noqa: E402
from qlrstudy.store.runs import RunDirectory  # noqa: E402
from qlrstudy.store.unpacking import unpack  # noqa: E402
from qlrstudy.tasks import TASKS  # noqa: E402
from qlrstudy.training import train as training  # noqa: E402

Counts = collections.Counter[str]
STEPS = 60_000
NAMES = ("../out", "/out", ".ssh/authorized_keys", "a/../../out", "a/.lock", "a/x.sh")


def whole_run(store: str) -> None:
    training.CHECKPOINT_SECONDS = 0.2  # so that kills find many of them
    task, algorithm = TASKS["digits"]["paper"], ALGORITHMS["adam-untuned"]
    budget = Budget("steps", STEPS)
    run = Run(task, algorithm, algorithm.defaults, BatchShape(50), 0, budget)
    training.train(run, task.load(DataOptions()), Path(store))


def results(store: Path) -> tuple[np.ndarray, list[tuple[float, ...]]]:
    (path,) = store.glob("digits-*")
    directory = RunDirectory(path)
    assert directory.ended() is not None
    records = [(r.step, r.training_loss, r.test_loss) for r in directory.records()]
    return np.stack(directory.steps()[:3]), records


def kills(tries: int, folder: Path) -> Counts:
    """Kill one run after the other three times each, then finish it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["qlrstudy.training.train"])
    counts: Counts = collections.Counter()
    begin = context.Process(target=whole_run, args=(str(folder / "whole"),))
    begin.start()
    begin.join()
    steps, records = results(folder / "whole")
    while counts["tries"] < tries:
        store = folder / f"killed-{counts['tries']}"
        for _ in range(min(3, tries - counts["tries"])):
            process = context.Process(target=whole_run, args=(str(store),))
            process.start()
            process.join(random.uniform(0.5, 8.0))
            process.kill()
            process.join()
            counts["tries"] += 1
        process = context.Process(target=whole_run, args=(str(store),))
        process.start()
        process.join()
        again, evaluations = results(store)
        same = np.array_equal(steps, again, equal_nan=True) and records == evaluations
        counts["silently wrong"] += not same and len(evaluations) == len(records)
        counts["lost"] += len(evaluations) < len(records) or again.shape < steps.shape
        counts["doubled"] += len(evaluations) > len(records)
        shutil.rmtree(store)
    return counts


def mutations(tries: int, folder: Path) -> Counts:
    """Damage a file of a store, and ask all who read stores."""
    counts: Counts = collections.Counter()
    store = damage.make_store(folder / "store")
    shutil.copytree(store, folder / "copy")
    whole = damage.look(folder / "copy", folder / "beside")
    generator = np.random.default_rng()
    files = sorted(p for p in store.rglob("*") if p.is_file() and p.stat().st_size)
    for _ in range(tries):
        shutil.rmtree(folder / "copy")
        shutil.copytree(store, folder / "copy")
        path = files[generator.integers(len(files))]
        name = generator.choice([*damage.MUTATIONS])
        hurt = folder / "copy" / path.relative_to(store)
        hurt.write_bytes(damage.MUTATIONS[name](path.read_bytes(), generator))
        seen = damage.look(folder / "copy", folder / "beside")
        found = damage.verdict(whole, seen, path.name)
        counts["tries"] += 1
        counts[found] += found != "survived"
        if found != "survived":
            print(f"{found}: {name} of {path.relative_to(store)}", file=sys.stderr)
    return counts


def commands(tries: int, folder: Path) -> Counts:
    """Damage a file of a store, and give a command."""
    counts: Counts = collections.Counter()
    store, copy = damage.make_store(folder / "store"), folder / "copy"
    whole: dict[str, damage.Answer] = {}
    files = sorted(p for p in store.rglob("*") if p.is_file() and p.stat().st_size)
    for number in range(tries):
        command = [*damage.COMMANDS][number % len(damage.COMMANDS)]
        shutil.copytree(store, copy)
        if command not in whole:
            whole[command] = damage.ask(command, copy, folder / "beside")
            shutil.rmtree(copy)
            shutil.copytree(store, copy)
        hurt = copy / random.choice(files).relative_to(store)
        name = random.choice([*damage.MUTATIONS])
        content = damage.MUTATIONS[name](hurt.read_bytes(), np.random.default_rng())
        hurt.write_bytes(content)
        answer = damage.ask(command, copy, folder / "beside")
        found = damage.complaint(command, whole[command], answer, hurt)
        counts["tries"] += 1
        counts["lost"] += bool(found) and "wrong" not in found
        counts["silently wrong"] += "wrong" in found
        if found:
            print(f"{command}, {name} of {hurt.name}: {found}", file=sys.stderr)
        shutil.rmtree(copy)
    return counts


def hostile(tries: int, folder: Path) -> Counts:
    """Unpack files that would write where no store does."""
    counts: Counts = collections.Counter()
    for number in range(tries):
        name = NAMES[number % len(NAMES)]
        rows = {"path": ["a/manifest.json", name], "text": ["{}", "x"]}
        pq.write_table(pa.table(rows), folder / "bad.parquet")
        try:
            unpack(folder / "bad.parquet", folder / "hostile" / "store")
        except ValueError:
            pass
        counts["tries"] += 1
        counts["silently wrong"] += (folder / "hostile").exists()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=100, help="of each attack")
    parser.add_argument("--kills", type=int, help="if not as many")
    given = parser.parse_args()
    print("| attack | tries | survived | lost | doubled | silently wrong |")
    print("|---|---|---|---|---|---|")
    for attack in (kills, mutations, commands, hostile):
        tries = given.tries if given.kills is None or attack != kills else given.kills
        with tempfile.TemporaryDirectory() as folder:
            counts = attack(tries, Path(folder))
        bad = [counts[name] for name in ("lost", "doubled", "silently wrong")]
        row = [attack.__name__, counts["tries"], counts["tries"] - sum(bad), *bad]
        print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
