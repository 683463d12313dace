"""Every example and every Python block of the README runs."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    subprocess.run([sys.executable, example], cwd=tmp_path, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS)
def test_readme_block_runs(block, tmp_path):
    subprocess.run([sys.executable, "-c", block], cwd=tmp_path, check=True)
