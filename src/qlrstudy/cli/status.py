"""`qlrstudy status`: what a store has, and lacks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qlrstudy.cli import console
from qlrstudy.store.status import STATES, Contents, Count, contents


def status(store: Path, *, as_json: bool) -> int:
    """Do the command; 1 if some runs failed or cannot be read."""
    if not store.is_dir():
        raise ValueError(f"STORE must be a directory with runs, got {store}")
    found = contents(store)
    if as_json:
        console.as_json(_as_json(found))
    else:
        _show("Runs", found.algorithms)
        _show("Tunings", found.tunings)
        _show("Studies", found.studies)
        if not any(found):
            console.tell(
                f"{store} holds no runs; `qlrstudy run digits adamqlr --store {store}` "
                "makes one"
            )
    for path, error in found.failures:
        console.say(f"failed: {path}\n{error.rstrip()}")
    for damage in found.damage:
        console.say(f"left out: {damage}")
    return 1 if found.failures or found.damage else 0


def _as_json(found: Contents) -> dict[str, Any]:
    counts = {
        kind: {count.name: dict(count.states) for count in own}
        for kind, own in (
            ("runs", found.algorithms),
            ("tunings", found.tunings),
            ("studies", found.studies),
        )
    }
    failures = [{"path": str(f.path), "error": f.error} for f in found.failures]
    return {**counts, "failures": failures, "damage": [str(d) for d in found.damage]}


def _show(title: str, counts: Sequence[Count]) -> None:
    """Print how many runs are in which state, if there are any."""
    names = dict.fromkeys(name for count in counts for name in count.states)
    header = [name for name in STATES if name in names]
    rows = [
        [count.name, *(str(count.states[name] or "") for name in header)]
        for count in counts
    ]
    if rows:
        console.table(title, ["name", *header], rows)
