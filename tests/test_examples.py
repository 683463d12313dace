"""Every example and every Python block of the README and of whole pages runs."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "docs" / "losses.md"]
BLOCKS = [
    block
    for page in PAGES
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
]


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    subprocess.run([sys.executable, example], cwd=tmp_path, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS)
def test_block_of_a_page_runs(block, tmp_path):
    subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True)
