"""The oldest versions that pyproject.toml admits for some extras, as pip's constraints.

python .ci/oldest.py jax torch
"""

import re
import sys
import tomllib
from pathlib import Path

_BOUND = re.compile(r"([\w-]+)(?:\[[\w,-]+\])?>=([\w.]+)")


def main(extras: list[str]) -> None:
    """Print a line for each package that has a lower bound."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    for extra in extras:
        for requirement in project["optional-dependencies"][extra]:
            if found := _BOUND.match(requirement):
                print(f"{found[1]}=={found[2]}")


if __name__ == "__main__":
    main(sys.argv[1:])
