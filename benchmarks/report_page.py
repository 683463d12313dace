"""How large the report's page is, and how soon it can be used.

    python benchmarks/report_page.py [--algorithms 13] [--runs 50] [--tasks 1]

Makes a synthetic store (4,000 steps and 51 evaluations a run), times what the report
takes without its figures, and opens the page in headless Chromium: the time from
navigation until all scripts have run and the first view is drawn, the median of five
fresh browser contexts, for the overview and for a task.
"""

import argparse
import math
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, sync_playwright

from qlrstudy.report.contents import contents
from qlrstudy.report.page import html
from qlrstudy.report.styles import ALGORITHMS
from qlrstudy.spec import Record, StepReport
from qlrstudy.store.manifest import SCHEMA, Manifest, Status
from qlrstudy.store.runs import run_directory

FLAGS = (
    "--no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
STEPS, EVALUATIONS = 4000, 51


def synthetic_run(
    store: Path, task: str, algorithm: str, place: int, seed: int
) -> None:
    generator = np.random.default_rng([place, seed])
    manifest = Manifest(
        schema=SCHEMA,
        task=task,
        scale="paper",
        algorithm=algorithm,
        hyperparameters={"batch_size": 100, "learning_rate": 1e-3 * (1 + place)},
        seed=seed,
        budget={"epochs": 100},
        data={},
        examples={},
        status=Status.FINISHED,
        started="2026-01-01",
    )
    directory = run_directory(store, manifest)
    at = np.linspace(0, STEPS, EVALUATIONS).astype(int)
    noise = generator.lognormal(0, 0.1, EVALUATIONS)
    losses = (1 + 0.1 * place) * (at / 40 + 1) ** -0.7 * noise
    with directory.claim():
        for step, loss in zip(at.tolist(), losses.tolist(), strict=True):
            seconds = step * 1e-3 * (1 + place / 3)
            accuracy = math.exp(-loss)
            directory.append_record(
                Record(
                    *(step, step / 40, seconds),
                    *(loss, loss, loss, loss),
                    *(accuracy, accuracy, accuracy),
                    *(1.0, 1.0),
                )
            )
        size = generator.lognormal(-5, 0.3, STEPS)
        directory.append_steps(StepReport(size, size, size**2, size))
        directory.close(manifest)


def interactive(browser: Browser, path: Path, view: str) -> float:
    """Milliseconds from navigation to the end of the scripts, in a fresh context."""
    context = browser.new_context(viewport={"width": 1366, "height": 900})
    page = context.new_page()
    page.goto(f"{path.as_uri()}#{view}")
    page.wait_for_selector("html[data-ready]")
    page.wait_for_selector("path.mark")
    taken = page.evaluate("performance.getEntriesByName('ready')[0].startTime")
    context.close()
    return float(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithms", type=int, default=13)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--tasks", type=int, default=1)
    options = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("no chromium: install it, then run this again")
    with tempfile.TemporaryDirectory() as folder:
        store, path = Path(folder) / "store", Path(folder) / "index.html"
        tasks = [f"task-{number}" for number in range(options.tasks)]
        for task in tasks:
            for place, name in enumerate(list(ALGORITHMS)[: options.algorithms]):
                for seed in range(options.runs):
                    synthetic_run(store, task, name, place, seed)
        begin = time.perf_counter()
        found = contents(store)
        path.write_text(html(found), encoding="utf-8")
        print(f"read, computed and written in {time.perf_counter() - begin:.1f} s")
        print(f"page: {path.stat().st_size / 1e6:.2f} MB")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
            for view in ("overview", found.parts[0].section.key):
                times = [interactive(browser, path, view) for _ in range(5)]
                print(f"{view}: interactive after {statistics.median(times):.0f} ms")
            browser.close()


if __name__ == "__main__":
    main()
