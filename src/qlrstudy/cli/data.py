"""`qlrstudy data`: what is learnt from, and whether it is here."""

import os
from collections.abc import Sequence
from pathlib import Path

from qlrstudy.cli import console
from qlrstudy.data import data_root, fetch_sets, list_sets, verify_sets
from qlrstudy.spec import DataOptions


def list_(directory: Path | None, *, as_json: bool) -> int:
    """List what there is."""
    where = DataOptions(directory)
    found = list_sets(where)
    if as_json:
        entries = [
            {
                "name": status.data_set.name,
                "files": len(status.data_set.files),
                "present": status.present,
                "bytes": status.size,
                "licence": status.data_set.licence,
                "folder": str(status.folder),
            }
            for status in found
        ]
        console.as_json(entries)
        return 0
    rows = [
        [
            status.data_set.name,
            f"{status.present} of {len(status.data_set.files)}",
            f"{status.size / 1e6:.1f} MB",
            status.data_set.licence,
        ]
        for status in found
    ]
    header = ["set", "files here", "size", "licence"]
    console.table(f"Data in {data_root(where)}", header, rows)
    return 0


def fetch(names: Sequence[str], directory: Path | None) -> int:
    """Download."""
    new = fetch_sets(names, DataOptions(directory))
    for path in new:
        console.tell(f"fetched {path}")
    if not new:
        console.tell("all is here already")
    return 0


def verify(names: Sequence[str], directory: Path | None, *, as_json: bool) -> int:
    """Check; 1 if a file is not the published one."""
    where = DataOptions(directory)
    root = data_root(where)
    found = verify_sets(names, where)
    if as_json:
        entries = [
            {"file": str(f.path), "state": f.state, "problem": f.problem} for f in found
        ]
        console.as_json(entries)
    else:
        rows = [[os.path.relpath(f.path, root), f.state, f.problem] for f in found]
        console.table(f"Data in {root}", ["file", "state", "problem"], rows)
    return 0 if all(file.state == "complete" for file in found) else 1
