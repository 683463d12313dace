"""`qlrstudy pack` and `unpack`: a store's results as one small file, and back."""

import argparse

from qlrstudy.cli import console
from qlrstudy.store import archive


def pack(options: argparse.Namespace) -> int:
    """Write the file; 1 if not all of the store can be read."""
    packed = archive.pack(options.store, options.file)
    size = options.file.stat().st_size / 1e3
    console.tell(f"{packed.runs} runs in {options.file}, {size:.0f} kB")
    for damage in packed.damage:
        console.say(f"left out: {damage}")
    return 1 if packed.damage else 0


def unpack(options: argparse.Namespace) -> int:
    """Make the store."""
    new = archive.unpack(options.file, options.store)
    console.tell(f"{new} new files in {options.store}")
    return 0
