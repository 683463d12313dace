"""Who may import whom, as the house style has it."""

import ast
from pathlib import Path

import pytest

import adamqlr.jax
import qlrstudy

ROOT = Path(qlrstudy.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))


def _imports(path: Path) -> list[tuple[str, str]]:
    """Module and name of each import in a file."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module or "", alias.name) for alias in node.names]
    return found


def _room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_rooms_keep_to_their_neighbours(path):
    room = _room(path)
    for module, name in _imports(path):
        target = f"{module}.{name}" if module == "qlrstudy" else module
        if module.startswith("adamqlr"):
            assert module == "adamqlr.jax"
            assert name in adamqlr.jax.__all__
        if room == "tasks":
            assert not target.startswith("qlrstudy.algorithms")
        if room == "algorithms":
            assert not target.startswith("qlrstudy.tasks")
        if room not in ("__main__", "cli"):
            assert not target.startswith("qlrstudy.cli")
        if room in ("store", "report"):
            assert module.split(".")[0] not in ("jax", "flax", "optax", "torch")


def test_the_library_does_not_know_the_study():
    for path in Path(adamqlr.jax.__file__).parents[1].rglob("*.py"):
        assert not [m for m, _ in _imports(path) if m.startswith("qlrstudy")]
