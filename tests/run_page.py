"""Runs the Python blocks of a page as its reader would: in order, in one session.

    python tests/run_page.py docs/losses.md

An error's traceback names the page and the line in it.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(
    r"^(?P<indent> *)```python[^\n]*\n(?P<code>.*?)^(?P=indent)```",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A block's code, and the line of the page that it begins at."""

    line: int
    code: str


def blocks(page: str) -> list[Block]:
    """All blocks of a page, also those in tabs and boxes, which are indented."""
    found = []
    for match in _FENCE.finditer(page):
        indent = len(match["indent"])
        lines = [line[indent:] for line in match["code"].splitlines(keepends=True)]
        found.append(Block(page.count("\n", 0, match.start("code")), "".join(lines)))
    return found


def main(path: str) -> None:
    """Run a page, and say how many blocks it has."""
    # As in a notebook: what a block defines can be pickled, and is there for the next.
    session = sys.modules["__main__"].__dict__ | {"__file__": path}
    found = blocks(Path(path).read_text())
    for line, code in found:
        exec(compile("\n" * line + code, path, "exec"), session)
    sys.stdout.write(f"{path}: {len(found)} blocks\n")


if __name__ == "__main__":
    main(sys.argv[1])
