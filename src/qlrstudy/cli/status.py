"""`qlrstudy status`: what a store has, and lacks."""

import argparse
from pathlib import Path

from qlrstudy.cli import console, results
from qlrstudy.store.status import contents


def status(options: argparse.Namespace) -> int:
    """Do the command; 1 if some runs failed or cannot be read."""
    store: Path = options.store
    if not store.is_dir():
        raise ValueError(f"STORE must be a directory with runs, got {store}")
    found = contents(store)
    results.states("Runs", found.algorithms)
    results.states("Tunings", found.tunings)
    results.states("Studies", found.studies)
    for path, error in found.failures:
        console.say(f"failed: {path}\n{error.rstrip()}")
    for damage in found.damage:
        console.say(f"left out: {damage}")
    return 1 if found.failures or found.damage else 0
