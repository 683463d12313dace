"""The experiments behind adamqlr: tasks, algorithms, and runs that are not lost."""

import sys
from importlib.util import find_spec

if sys.platform == "win32":
    raise ImportError(
        "qlrstudy needs Linux or macOS: its locks and what it promises of a store are "
        "those of POSIX. On Windows use WSL; adamqlr itself works there"
    )
_ABSENT = [
    name
    for name in ("cyclopts", "filelock", "flax", "jax", "msgspec", "rich")
    if find_spec(name) is None
]
if _ABSENT:
    raise ModuleNotFoundError(
        f"qlrstudy needs {', '.join(_ABSENT)}: pip install 'adamqlr[study]'"
    )
