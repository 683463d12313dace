"""The pages say what is true: their code runs, and the reference leaves nothing out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import adamqlr.jax
import adamqlr.torch
from run_page import blocks

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_CODE = [page for page in PAGES if blocks(page.read_text())]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def _run(*command: object, folder: Path) -> None:
    # Without a warning of what users cannot mend, and away from the repository's files.
    quiet = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    subprocess.run(
        [sys.executable, *map(str, command)], cwd=folder, check=True, env=quiet
    )


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    _run(example, folder=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda path: path.stem)
def test_the_blocks_of_a_page_run_as_written(page, tmp_path):
    _run(ROOT / "tests" / "run_page.py", page, folder=tmp_path)


def test_a_block_is_found_wherever_it_stands():
    page = """
```python title="first"
a = 1
```
=== "Tab"

    ```python
    if a:
        b = 2
    ```
"""
    assert blocks(page) == [(2, "a = 1\n"), (7, "if a:\n    b = 2\n")]


def test_every_page_is_in_the_navigation():
    site = (ROOT / "zensical.toml").read_text()
    named = set(re.findall(r'"([\w/-]+\.md)"', site))
    assert named == {str(page.relative_to(ROOT / "docs")) for page in PAGES[1:]}


@pytest.mark.parametrize("front", [adamqlr.jax, adamqlr.torch])
def test_the_reference_has_everything_public(front):
    pages = (ROOT / "docs" / "reference").glob("*.md")
    entries = set(
        re.findall(r"^::: (\S+)$", "".join(p.read_text() for p in pages), re.M)
    )
    method = ("settings", "measurements", "memory", "step", "rules")
    rooms = (front.__name__, *[f"adamqlr.{name}" for name in method])
    named = {
        name for room, _, name in (e.rpartition(".") for e in entries) if room in rooms
    }
    assert set(front.__all__) - named == set()
