"""A store's own mark, by which a process on another machine knows it again."""

import re
import uuid
from pathlib import Path

from qlrstudy.store import files

_MARK = re.compile(rb"[0-9a-f]{32}")
_MARK_SECONDS = 60.0


def mark(store: Path) -> str:
    """A store's own mark, by which a process on another machine knows it again."""
    path = store / ".mark"
    with files.locked(store / ".mark.lock", wait=_MARK_SECONDS):
        known = files.content(path) or b""
        if not _MARK.fullmatch(known):
            known = uuid.uuid4().hex.encode()
            with files.replacing(path) as file:
                file.write(known)
    return known.decode()


def is_marked(store: Path, text: str) -> bool:
    """Whether this is the store with that mark, and not another at the same path."""
    return files.content(store / ".mark") == text.encode()
