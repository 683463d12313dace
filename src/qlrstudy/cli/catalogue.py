"""What there is, by name, without loading any of it.

    python -m qlrstudy.cli.catalogue

writes `catalogue.json` anew, from the tasks, algorithms, studies and data sets
themselves; a test says when that is due. Lists and a shell's completion read the file,
because to load JAX takes longer than all else that they do.
"""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("catalogue.json")
Entries = dict[str, list[dict[str, Any]]]


@functools.cache
def read() -> Entries:
    """Entries of each kind: `tasks`, `algorithms`, `studies` and `sets`."""
    return json.loads(_FILE.read_text("utf-8"))


def names(of: str) -> Iterator[str]:
    """The names of one kind, each once."""
    yield from dict.fromkeys(entry["name"] for entry in read()[of])


def make() -> Entries:
    """The entries, made of what they speak of."""
    from qlrstudy.algorithms import ALGORITHMS
    from qlrstudy.data import DATA_SETS
    from qlrstudy.spec import Algorithm, Complement, SearchSpace
    from qlrstudy.studies import STUDIES
    from qlrstudy.tasks import TASKS

    def ranges(space: SearchSpace) -> dict[str, Any]:
        return {
            name: {
                "low": known.low,
                "high": known.high,
                "complement": isinstance(known, Complement),
            }
            for name, known in space.items()
        }

    def settings(algorithm: Algorithm) -> dict[str, Any]:
        searched = ranges(algorithm.search)
        return {
            name: {"default": value} | searched.get(name, {})
            for name, value in algorithm.defaults.items()
        }

    return {
        "tasks": [
            {
                "name": name,
                "title": task.title,
                "scale": scale,
                "budget": str(task.budget),
                "adam_batch": task.adam_batch.size,
                "search": ranges(task.search),
            }
            for name, scales in TASKS.items()
            for scale, task in scales.items()
        ],
        "algorithms": [
            {"name": name, "title": known.title, "settings": settings(known)}
            for name, known in ALGORITHMS.items()
        ],
        "studies": [
            {
                "name": name,
                "title": study.title,
                "tasks": list(dict.fromkeys(arm.task for arm in study.arms)),
                "algorithms": list(dict.fromkeys(arm.algorithm for arm in study.arms)),
            }
            for name, study in STUDIES.items()
        ],
        "sets": [{"name": name} for name in DATA_SETS],
    }


def _text(entries: Entries) -> str:
    """JSON with a line for each entry, so that changes show as such."""
    kinds = []
    for kind, own in entries.items():
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in own)
        kinds.append(f"{json.dumps(kind)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(kinds) + "\n}\n"


if __name__ == "__main__":
    _FILE.write_text(_text(make()), "utf-8")
