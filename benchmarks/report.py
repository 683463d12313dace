"""What a report takes, as ratios to reading its store.

    python benchmarks/report.py [results/any-batch.parquet ...]

Unpacks each file and measures, in CPU time of a process of its own: reading the store
(`load`), all that is computed, the page, the figures as SVG, and PDF and PNG of these.
Ratios do not depend on the machine; the seconds and the memory are printed beside them.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from qlrstudy.store.unpacking import unpack

RESULTS = Path(__file__).parents[1] / "results"


def measure(store: Path) -> dict[str, float]:
    """CPU seconds of each part, by name, and the memory at the end."""
    from qlrstudy.report import figures
    from qlrstudy.report.contents import contents
    from qlrstudy.report.load import load
    from qlrstudy.report.page import html

    taken: dict[str, float] = {}

    def clock(name, work):
        begin = time.process_time()
        made = work()
        taken[name] = time.process_time() - begin
        return made

    clock("reading", lambda: load(store))
    found = clock("computing", lambda: contents(store))
    taken["computing"] -= taken["reading"]  # it reads the store itself
    clock("page", lambda: html(found))
    printed = [chart for chart in found.charts if chart.printed]
    clock("figures, SVG", lambda: [figures.svg(chart) for chart in printed])
    with tempfile.TemporaryDirectory() as folder:
        clock("PDF, PNG", lambda: [figures.save(c, Path(folder)) for c in printed])
    taken["PDF, PNG"] -= taken["figures, SVG"]
    # Not `getrusage`, which also knows what the parent had before this began.
    status = Path("/proc/self/status").read_text()
    taken["MB"] = int(status.split("VmHWM:")[1].split()[0]) / 1e3
    return taken


def main() -> None:
    """Print a line for each part of each store's report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.store is not None:
        print(json.dumps(measure(options.store)))
        return
    for file in options.files or sorted(RESULTS.glob("*.parquet")):
        with tempfile.TemporaryDirectory() as folder:
            unpack(file, Path(folder))
            command = [sys.executable, __file__, "--store", folder]
            taken = json.loads(subprocess.check_output(command))
        memory, reading = taken.pop("MB"), taken["reading"]
        print(f"{file.stem}: {sum(taken.values()):.1f} s, {memory:.0f} MB")
        for name, seconds in taken.items():
            print(f"  {name:14} {seconds:6.2f} s  {seconds / reading:5.1f} x reading")


if __name__ == "__main__":
    main()
