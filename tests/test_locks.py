"""What `make` installs is what was locked, or nothing."""

import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
TARGETS = {"dev": ".venv/installed", "study": ".venv/study"}
LOCKS = {"dev": "requirements.lock", "study": "requirements-study.lock"}


def pins(name: str) -> dict[str, str]:
    """The versions that a lock, or the constraints, have."""
    text = (ROOT / name).read_text()
    found = re.findall(r"^([\w.\[\]-]+)==([^\s;]+)", text, re.M)
    return {_normal(re.sub(r"\[.*", "", name)): version for name, version in found}


def installs(extra: str) -> list[list[str]]:
    """The calls of pip that make would do for an environment."""
    command = ["make", "--dry-run", "--always-make", TARGETS[extra]]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    calls = re.split(r"\n| && ", done.stdout)
    return [call.split() for call in calls if " pip install " in call]


def declared(extra: str) -> list[Requirement]:
    """What an extra asks for, with that of the extras it names."""
    found = []
    for requirement in map(Requirement, EXTRAS[extra]):
        if requirement.name == "adamqlr":
            found += [r for inner in requirement.extras for r in declared(inner)]
        else:
            found.append(requirement)
    return found


@pytest.mark.parametrize("extra", LOCKS)
def test_a_lock_has_all_that_is_declared(extra):
    locked = pins(LOCKS[extra])
    for requirement in declared(extra):
        if requirement.name != "torch":
            version = locked[_normal(requirement.name)]
            assert requirement.specifier.contains(version, prereleases=True)


def test_the_locks_and_the_constraints_agree():
    locked, constraints = pins(LOCKS["dev"]), pins("constraints.txt")
    assert pins(LOCKS["study"]).items() <= locked.items()
    assert all(locked.get(name, pin) == pin for name, pin in constraints.items())


@pytest.mark.parametrize("extra", LOCKS)
def test_make_installs_by_checksum_all_but_torch_and_this_package(extra):
    first, *rest = installs(extra)
    assert first[-2:] == ["--requirement", LOCKS[extra]]
    assert {"--require-hashes", "--no-deps", "--only-binary"} <= {*first}
    assert [call[-1] for call in rest] == (["torch", "."] if extra == "dev" else ["."])
    assert {"--no-deps", "--no-build-isolation"} <= {*rest[-1]}


def test_a_package_that_was_tampered_with_does_not_install(tmp_path):
    wheel = tmp_path / "small-1.0-py3-none-any.whl"
    about = "small-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("small.py", "")
        file.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n"
        )
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")
    lock = tmp_path / "a.lock"
    checksum = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock.write_text(f"small==1.0 \\\n    --hash=sha256:{checksum}\n")
    offline = ["--no-index", "--find-links", str(tmp_path), "--dry-run"]
    command = [sys.executable, *installs("study")[0][1:-1], str(lock), *offline]
    assert subprocess.run(command, capture_output=True).returncode == 0
    with zipfile.ZipFile(wheel, "a") as file:
        file.writestr("more.py", "")
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode != 0 and "DO NOT MATCH THE HASHES" in refused.stderr


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
