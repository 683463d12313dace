"""`qlrstudy data`: what is learnt from, and whether it is here."""

import argparse
from typing import Any

from qlrstudy.cli import display
from qlrstudy.cli import options as arguments
from qlrstudy.data import fetch_sets, list_sets, verify_sets
from qlrstudy.spec import DataOptions


def add_parsers(commands: Any) -> None:
    """Add the command and its actions to a parser's subcommands."""
    data = commands.add_parser("data", help="what is learnt from")
    actions = data.add_subparsers(required=True, metavar="ACTION")
    for name, command, text in (
        ("list", _data_list, "the sets, and what is here of them"),
        ("fetch", _data_fetch, "download sets"),
        ("verify", _data_verify, "read each file and check it"),
    ):
        action = actions.add_parser(name, help=text)
        action.set_defaults(command=command)
        if command is not _data_list:
            action.add_argument("sets", nargs="*", help="all, if none is named")
        arguments.data_directory(action)


def _data_list(options: argparse.Namespace) -> int:
    rows = [
        [
            status.data_set.name,
            f"{status.present} of {len(status.data_set.files)} files",
            f"{status.size / 1e6:.1f} MB",
            status.data_set.licence,
            str(status.folder),
        ]
        for status in list_sets(DataOptions(options.data_dir))
    ]
    display.table("Data", ["set", "here", "size", "licence", "folder"], rows)
    return 0


def _data_fetch(options: argparse.Namespace) -> int:
    new = fetch_sets(options.sets, DataOptions(options.data_dir))
    for path in new:
        display.OUT.print(f"fetched {path}", highlight=False)
    if not new:
        display.OUT.print("all is here already")
    return 0


def _data_verify(options: argparse.Namespace) -> int:
    found = verify_sets(options.sets, DataOptions(options.data_dir))
    rows = [[str(file.path), file.state, file.problem] for file in found]
    display.table("Data", ["file", "state", "problem"], rows)
    return 0 if all(file.state == "complete" for file in found) else 1
