"""What there is: `qlrstudy tasks`, `algorithms` and `studies`, from the catalogue."""

from collections.abc import Iterator, Mapping
from typing import Any

from qlrstudy.cli import catalogue, console


def tasks(*, as_json: bool) -> int:
    """List what can be learnt."""
    entries = catalogue.read()["tasks"]
    header = ["name", "scale", "title", "budget", "Adam's batch"]
    keys = ["name", "scale", "title", "budget", "adam_batch"]
    rows = [[str(entry[key]) for key in keys] for entry in entries]
    return _show("Tasks", header, rows, entries, as_json)


def algorithms(*, as_json: bool) -> int:
    """List what can learn it, and the tasks where it is tuned in other ranges."""
    entries = catalogue.read()["algorithms"]
    header = ["name", "title", "settings: default, and range if tuned"]
    rows = [
        [entry["name"], entry["title"], "; ".join(_settings(entry["settings"]))]
        for entry in entries
    ]
    code = _show("Algorithms", header, rows, entries, as_json)
    for line in () if as_json else _own_ranges():
        console.tell(line)
    return code


def studies(*, as_json: bool) -> int:
    """List what can be studied."""
    entries = catalogue.read()["studies"]
    header = ["name", "shows", "tasks", "algorithms"]
    rows = [
        [
            entry["name"],
            entry["title"],
            str(len(entry["tasks"])),
            str(len(entry["algorithms"])),
        ]
        for entry in entries
    ]
    return _show("Studies", header, rows, entries, as_json)


def _settings(settings: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, known in settings.items():
        searched = f", {_range(name, known)}" if "low" in known else ""
        yield f"{name} {known['default']:g}{searched}"


def _range(name: str, known: Mapping[str, Any]) -> str:
    what = f"1 - {name}" if known["complement"] else "log"
    return f"{what} [{known['low']:g}, {known['high']:g}]"


def _own_ranges() -> Iterator[str]:
    """Where a task has a range that stands in for those of all algorithms."""
    own = {entry["name"]: entry["search"] for entry in catalogue.read()["tasks"]}
    for task, search in own.items():
        for name, known in search.items():
            yield f"tuned in another range on {task}: {name}, {_range(name, known)}"


def _show(
    title: str, header: list[str], rows: list[list[str]], entries: Any, as_json: bool
) -> int:
    console.as_json(entries) if as_json else console.table(title, header, rows)
    return 0
