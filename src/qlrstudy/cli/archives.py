"""`qlrstudy pack` and `unpack`: a store's results as one small file, and back."""

import argparse
from pathlib import Path
from typing import Any

from qlrstudy.cli import display
from qlrstudy.store import archive


def add_parsers(commands: Any) -> None:
    """Add the commands to a parser's subcommands."""
    pack = commands.add_parser("pack", help="a store's results as one small file")
    pack.set_defaults(command=_pack)
    pack.add_argument("store", type=Path, metavar="STORE", help="only read")
    pack.add_argument("file", type=Path, metavar="FILE", help="to be written")
    unpack = commands.add_parser("unpack", help="a store of such a file, to report on")
    unpack.set_defaults(command=_unpack)
    unpack.add_argument("file", type=Path, metavar="FILE", help="only read")
    unpack.add_argument("store", type=Path, metavar="STORE", help="a directory")


def _pack(options: argparse.Namespace) -> int:
    count = archive.pack(options.store, options.file)
    size = options.file.stat().st_size / 1e3
    said = f"{count} runs in {options.file}, {size:.0f} kB"
    display.OUT.print(said, highlight=False, markup=False, soft_wrap=True)
    return 0


def _unpack(options: argparse.Namespace) -> int:
    new = archive.unpack(options.file, options.store)
    said = f"{new} new files in {options.store}"
    display.OUT.print(said, highlight=False, markup=False, soft_wrap=True)
    return 0
