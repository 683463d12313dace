"""What a name stands for, or which may be meant."""

import difflib
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def lookup(what: str, name: str, known: Mapping[str, T]) -> T:
    """What a name stands for.

    Raises:
        ValueError: with the names there are, and the one that may be meant.
    """
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(
        f"{what} must be one of {', '.join(known) or '(there is none)'}, "
        f"got {name!r}{hint}"
    )
