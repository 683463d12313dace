"""`qlrstudy data`: what is learnt from, and whether it is here."""

import argparse

from qlrstudy.cli import console
from qlrstudy.data import fetch_sets, list_sets, verify_sets
from qlrstudy.spec import DataOptions


def data(options: argparse.Namespace) -> int:
    """List, fetch or verify; 1 if a verified file is not the published one."""
    where = DataOptions(options.data_dir)
    match options.action:
        case "list":
            return _list(where)
        case "fetch":
            return _fetch(options.sets, where)
        case _:
            return _verify(options.sets, where)


def _list(where: DataOptions) -> int:
    rows = [
        [
            status.data_set.name,
            f"{status.present} of {len(status.data_set.files)} files",
            f"{status.size / 1e6:.1f} MB",
            status.data_set.licence,
            str(status.folder),
        ]
        for status in list_sets(where)
    ]
    console.table("Data", ["set", "here", "size", "licence", "folder"], rows)
    return 0


def _fetch(names: list[str], where: DataOptions) -> int:
    new = fetch_sets(names, where)
    for path in new:
        console.tell(f"fetched {path}")
    if not new:
        console.tell("all is here already")
    return 0


def _verify(names: list[str], where: DataOptions) -> int:
    found = verify_sets(names, where)
    rows = [[str(file.path), file.state, file.problem] for file in found]
    console.table("Data", ["file", "state", "problem"], rows)
    return 0 if all(file.state == "complete" for file in found) else 1
