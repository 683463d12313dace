"""Who may import whom, as the house style has it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import adamqlr.jax
import qlrstudy

ROOT = Path(qlrstudy.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FRAMEWORKS = {"jax", "flax", "optax", "torch", "tensorflow"}

# From the bottom up: a room may import those that stand before it, and its own files.
# Rooms of one line know nothing of each other.
ROOMS = (
    ("spec", "paper", "names"),
    ("store",),
    ("data", "models"),
    ("tasks", "algorithms"),
    ("training",),
    ("cluster",),
    ("tuning",),
    ("studies", "report"),
    ("cli",),
    ("__main__",),
)
HEIGHT = {room: height for height, rooms in enumerate(ROOMS) for room in rooms}
# What reads stores alone, and studies as plain data, know no task and no algorithm.
PLAIN = ("cluster/jobs.py", "tuning/rule.py", "studies/definition.py")


def _imports(path: Path) -> list[tuple[str, str]]:
    """Module and name of each import in a file."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module or "", alias.name) for alias in node.names]
    return found


def _rooms(path: Path) -> set[str]:
    """The study's rooms that a file imports from."""
    targets = [f"{module}.{name}" for module, name in _imports(path)]
    return {t.split(".")[1] for t in targets if t.startswith("qlrstudy.")}


def _room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def test_every_room_has_its_place():
    assert {_room(path) for path in FILES} == {*HEIGHT, "__init__"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_rooms_import_downwards(path):
    room = _room(path)
    for other in _rooms(path) - {room}:
        assert HEIGHT[other] < HEIGHT[room], f"{room} imports {other}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_public_names_of_the_library_are_used(path):
    for module, name in _imports(path):
        if module.split(".")[0] == "adamqlr":
            assert module == "adamqlr.jax"
            assert name in adamqlr.jax.__all__


@pytest.mark.parametrize("name", PLAIN)
def test_plans_and_jobs_are_plain_data(name):
    assert not _rooms(ROOT / name) & {"tasks", "algorithms"}


_READERS = [
    *("qlrstudy.spec", "qlrstudy.paper", "qlrstudy.cli.main", "qlrstudy.cli.status"),
    *("qlrstudy.cli.data", "qlrstudy.cli.lists"),
    *("qlrstudy.cli.pack", "qlrstudy.cli.report", "qlrstudy.studies.definition"),
    *("qlrstudy.cluster.jobs", "qlrstudy.store.status", "qlrstudy.store.archive"),
]


def _loaded_with(*modules: str) -> set[str]:
    """All that a Python has loaded after these."""
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_what_reads_a_store_loads_no_framework():
    assert not FRAMEWORKS & _loaded_with(*_READERS)


def test_what_counts_runs_loads_no_numpy():
    assert not {"numpy", "pyarrow"} & _loaded_with("qlrstudy.cli.status")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_are_looked_up_in_dicts(path):
    """And nowhere else: an explicit one for tasks, algorithms and studies each."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("globals", "hasattr", "vars")


def test_the_library_does_not_know_the_study():
    for path in Path(adamqlr.jax.__file__).parents[1].rglob("*.py"):
        assert not [m for m, _ in _imports(path) if m.startswith("qlrstudy")]
