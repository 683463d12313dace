"""What a release says of itself agrees, wherever it says it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import adamqlr
import adamqlr.jax
import adamqlr.torch

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_one():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {adamqlr.__version__}\n" in citation
    changelog = (ROOT / "CHANGELOG.md").read_text()
    [*released] = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", changelog, re.M)
    assert released[0] == adamqlr.__version__


def test_every_upper_bound_has_a_reason():
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    capped = [line for line in lines if re.search(r'"[\w-]+[^"]*<', line)]
    assert capped and all("#" in line for line in capped)


def test_only_kfac_holds_jax_back():
    extras = PROJECT["optional-dependencies"]
    capped = {name for name, needs in extras.items() if any("<" in n for n in needs)}
    assert capped == {"kfac"}


def test_the_oldest_versions_are_those_declared():
    command = [sys.executable, ".ci/oldest.py", "jax", "torch"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    oldest = dict(line.split("==") for line in done.stdout.splitlines())
    assert set(oldest) == {"jax", "jaxtyping", "optax", "torch"}


def test_the_library_needs_no_particular_system():
    particular = re.compile(r"^\s*(import|from) (fcntl|grp|os|pwd|resource|termios)\b")
    for path in (ROOT / "src" / "adamqlr").rglob("*.py"):
        assert not [
            line for line in path.read_text().splitlines() if particular.match(line)
        ]


def test_the_study_on_windows_names_what_it_needs():
    code = "import sys; sys.platform = 'win32'; import adamqlr, qlrstudy"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert "qlrstudy needs Linux or macOS" in done.stderr and "WSL" in done.stderr


def test_no_public_name_hides_the_package():
    code = "from adamqlr.jax import *; from adamqlr.torch import *; import adamqlr; "
    code += "from adamqlr.jax import adam_qlr; print(adamqlr.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == adamqlr.__version__, done.stderr
    assert "adamqlr" not in adamqlr.jax.__all__ + adamqlr.torch.__all__
