"""`docs/clients.md`: each row of its table is a test."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "clients.md").read_text()
ROWS = re.findall(r"^\| .* \| `(\w+\.py)::(\w+)` \|$", PAGE, re.MULTILINE)


def test_every_row_names_a_test():
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(ROWS) == len(lines) - 1 > 20  # all but the head


@pytest.mark.parametrize("file, name", ROWS)
def test_the_test_of_each_row_exists(file, name):
    tree = ast.parse((ROOT / "tests" / "library" / file).read_text())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name in names


def test_without_transformers_the_callback_names_its_extra():
    code = "import sys; sys.modules['transformers'] = None; "
    code += "import adamqlr.torch.huggingface"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'adamqlr[clients]'" in run.stderr
