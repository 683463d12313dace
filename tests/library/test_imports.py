"""Who may import whom."""

import ast
import pathlib
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(__file__).parents[2] / "src" / "adamqlr"


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_rules_import_no_framework():
    assert set(imported(SOURCE / "rules.py")) <= {"collections.abc", "enum", "typing"}


ARROWS = {
    "jax": [
        "likelihoods",
        "robust",
        "heads",
        "memory",
        "state",
        "objective",
        "curvature",
        "arguments",
        "transform",
        "optimisers",
        "training",
    ],
    "torch": [
        "likelihoods",
        "robust",
        "losses",
        "heads",
        "memory",
        "objective",
        "replay",
        "point",
        "products",
        "curvature",
        "directions",
        "step",
        "arguments",
        "rule",
        "optimisers",
    ],
}
ROOMS = [(front, room) for front, rooms in ARROWS.items() for room in rooms]


@pytest.mark.parametrize("front, room", ROOMS)
def test_rooms_import_only_rooms_below(front, room):
    rooms = ARROWS[front]
    allowed = {f"adamqlr.{front}.{below}" for below in rooms[: rooms.index(room)]}
    ours = {
        name
        for name in imported(SOURCE / front / f"{room}.py")
        if name.startswith(("adamqlr.jax", "adamqlr.torch", "qlrstudy"))
    }
    assert ours <= allowed


@pytest.mark.parametrize("front", ARROWS)
def test_every_room_has_its_place(front):
    found = {path.stem for path in (SOURCE / front).glob("*.py")}
    assert found == {"__init__", *ARROWS[front]}


@pytest.mark.parametrize(
    "module, absent",
    [
        ("adamqlr", {"jax", "torch", "optax"}),
        ("adamqlr.jax", {"torch"}),
        ("adamqlr.torch", {"jax", "optax", "jaxtyping"}),
    ],
)
def test_importing_a_front_end_loads_no_other_framework(module, absent):
    code = f"import sys, {module}; print({absent} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"
