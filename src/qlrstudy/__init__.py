"""The experiments behind adamqlr: tasks, algorithms, and runs that are not lost."""

from importlib.util import find_spec

_ABSENT = [
    name
    for name in ("cyclopts", "filelock", "flax", "jax", "msgspec", "rich")
    if find_spec(name) is None
]
if _ABSENT:
    raise ModuleNotFoundError(
        f"qlrstudy needs {', '.join(_ABSENT)}: pip install 'adamqlr[study]'"
    )
