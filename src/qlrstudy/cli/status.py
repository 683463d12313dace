"""`qlrstudy status`: what a store has, and lacks."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from qlrstudy.cli import console
from qlrstudy.store.status import STATES, Count, contents


def status(options: argparse.Namespace) -> int:
    """Do the command; 1 if some runs failed or cannot be read."""
    store: Path = options.store
    if not store.is_dir():
        raise ValueError(f"STORE must be a directory with runs, got {store}")
    found = contents(store)
    _show("Runs", found.algorithms)
    _show("Tunings", found.tunings)
    _show("Studies", found.studies)
    for path, error in found.failures:
        console.say(f"failed: {path}\n{error.rstrip()}")
    for damage in found.damage:
        console.say(f"left out: {damage}")
    return 1 if found.failures or found.damage else 0


def _show(title: str, counts: Sequence[Count]) -> None:
    """Print how many runs are in which state, if there are any."""
    names = dict.fromkeys(name for count in counts for name in count.states)
    header = [name for name in STATES if name in names]
    rows = [
        [count.name, *(str(count.states[name] or "") for name in header)]
        for count in counts
    ]
    if rows:
        console.table(title, ["", *header], rows)
