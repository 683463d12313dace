"""`qlrstudy pack` and `unpack`: a store's results as one small file, and back."""

from pathlib import Path

from qlrstudy.cli import console
from qlrstudy.store import archive, unpacking


def pack(store: Path, file: Path) -> int:
    """Write the file; 1 if not all of the store can be read."""
    packed = archive.pack(store, file)
    size = file.stat().st_size / 1e3
    console.tell(f"{packed.runs} runs in {file}, {size:.0f} kB")
    for damage in packed.damage:
        console.say(f"left out: {damage}")
    return 1 if packed.damage else 0


def unpack(file: Path, store: Path) -> int:
    """Make the store."""
    new = unpacking.unpack(file, store)
    console.tell(f"{new} files of {store} are new, or have more in them")
    return 0
