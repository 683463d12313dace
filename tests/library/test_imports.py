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
    assert set(imported(SOURCE / "rules.py")) <= {"typing"}


ARROWS = [
    "likelihoods",
    "objective",
    "curvature",
    "arguments",
    "transform",
    "optimisers",
    "training",
]


@pytest.mark.parametrize("room", ARROWS)
def test_rooms_import_only_rooms_below(room):
    allowed = {f"adamqlr.jax.{below}" for below in ARROWS[: ARROWS.index(room)]}
    ours = {
        name
        for name in imported(SOURCE / "jax" / f"{room}.py")
        if name.startswith(("adamqlr.jax", "adamqlr.torch", "qlrstudy"))
    }
    assert ours <= allowed


def test_importing_the_package_loads_no_framework():
    code = "import sys, adamqlr; print({'jax', 'torch', 'optax'} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"
