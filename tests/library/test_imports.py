"""Who may import whom, and what stands once."""

import ast
import inspect
import pathlib
import subprocess
import sys

import pytest

import adamqlr.jax
import adamqlr.torch

SOURCE = pathlib.Path(__file__).parents[2] / "src" / "adamqlr"


def parsed(path):
    return ast.parse(path.read_text())


def imported(path):
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = node.module or ""
            submodules = [f"{package}.{alias.name}" for alias in node.names]
            known = [name for name in submodules if is_module(name)]
            yield from known or [package]


def is_module(name):
    path = SOURCE.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


METHOD = [
    "rules",
    "settings",
    "measurements",
    "likelihoods",
    "families",
    "heads",
    "curvatures",
    "memory",
    "step",
]
ROOMS = {
    "jax": [
        "axes",
        "scalars",
        "likelihoods",
        "robust",
        "heads",
        "objective",
        "micro_batches",
        "curvature",
        "arguments",
        "transform",
        "optimisers",
        "training",
    ],
    "torch": [
        "sharding",
        "scalars",
        "memory",
        "bundles",
        "likelihoods",
        "robust",
        "losses",
        "heads",
        "objective",
        "replay",
        "passes",
        "point",
        "taken",
        "recording",
        "products",
        "curvature",
        "directions",
        "pending",
        "groups",
        "averaging",
        "batch_norm",
        "arguments",
        "qlr",
        "optimisers",
        "huggingface",
    ],
}


def ours(path):
    return {name for name in imported(path) if name.startswith(("adamqlr", "qlrstudy"))}


@pytest.mark.parametrize("module", METHOD)
def test_the_method_imports_no_framework_and_only_what_stands_before(module):
    path = SOURCE / f"{module}.py"
    before = {f"adamqlr.{name}" for name in METHOD[: METHOD.index(module)]}
    assert ours(path) <= before
    outside = set(imported(path)) - before
    assert outside <= {
        "collections.abc",
        "dataclasses",
        "enum",
        "functools",
        "math",
        "numbers",
        "operator",
        "typing",
    }


@pytest.mark.parametrize(
    "front, room", [(front, room) for front, rooms in ROOMS.items() for room in rooms]
)
def test_rooms_import_only_the_method_and_rooms_before(front, room):
    rooms = ROOMS[front]
    allowed = {f"adamqlr.{front}.{name}" for name in rooms[: rooms.index(room)]}
    allowed |= {f"adamqlr.{name}" for name in METHOD}
    assert ours(SOURCE / front / f"{room}.py") <= allowed


@pytest.mark.parametrize("front", ROOMS)
def test_every_room_has_its_place(front):
    found = {path.stem for path in (SOURCE / front).glob("*.py")}
    assert found == {"__init__", *ROOMS[front]}
    assert {path.stem for path in SOURCE.glob("*.py")} == {"__init__", *METHOD}


@pytest.mark.parametrize(
    "module, absent",
    [
        ("adamqlr", {"jax", "torch", "optax"}),
        ("adamqlr.step", {"jax", "torch", "optax", "numpy"}),
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


def values_defined_in(path):
    """The names of a file's dataclasses and named tuples that extend no other."""
    shared = {f"{module}." for module in METHOD}
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ClassDef):
            marks = [*node.bases, *node.decorator_list]
            if any(ast.unparse(base).startswith(tuple(shared)) for base in node.bases):
                continue
            if any(name in ast.unparse(mark) for mark in marks for name in
                   ("NamedTuple", "dataclass")):  # fmt: skip
                yield node.name


def test_no_value_of_the_method_is_defined_twice():
    method = [
        n for module in METHOD for n in values_defined_in(SOURCE / f"{module}.py")
    ]
    assert len(method) == len(set(method)) and {"Rule", "Memory"} <= set(method)
    for front in ROOMS:
        for path in (SOURCE / front).glob("*.py"):
            assert not set(values_defined_in(path)) & set(method), path


@pytest.mark.parametrize(
    "path, name", [("jax/transform.py", "update"), ("torch/qlr.py", "step")]
)
def test_a_step_stands_on_one_screen(path, name):
    (function,) = [
        node
        for node in ast.walk(parsed(SOURCE / path))
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    assert function.end_lineno - function.lineno + 1 <= 60


PUBLIC = [
    getattr(library, name)
    for library in (adamqlr.jax, adamqlr.torch)
    for name in library.__all__
    if callable(getattr(library, name))
]
# What a step reports or remembers is made by the method, field by field.
MADE_BY_THE_METHOD = {"Memory", "StepInfo"}


@pytest.mark.parametrize("public", PUBLIC, ids=lambda x: f"{x.__module__}.{x.__name__}")
def test_nothing_public_has_more_than_eight_arguments(public):
    if public.__name__ not in MADE_BY_THE_METHOD:
        parameters = inspect.signature(public).parameters.values()
        named = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
        assert len(named) <= 8


@pytest.mark.parametrize("front, missing", [("jax", "optax"), ("torch", "torch")])
def test_a_front_end_without_its_framework_names_the_extra(front, missing):
    code = f"import sys; sys.modules['{missing}'] = None; import adamqlr.{front}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"pip install 'adamqlr[{front}]'" in run.stderr.splitlines()[-1]
