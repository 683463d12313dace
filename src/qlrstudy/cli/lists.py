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
    """List what can learn it."""
    entries = catalogue.read()["algorithms"]
    header = ["name", "title", "settings: default, and range if tuned"]
    rows = [
        [entry["name"], entry["title"], "; ".join(_settings(entry["settings"]))]
        for entry in entries
    ]
    return _show("Algorithms", header, rows, entries, as_json)


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
        searched = ""
        if "low" in known:
            what = f"1 - {name}" if known["complement"] else "log"
            searched = f", {what} [{known['low']:g}, {known['high']:g}]"
        yield f"{name} {known['default']:g}{searched}"


def _show(
    title: str, header: list[str], rows: list[list[str]], entries: Any, as_json: bool
) -> int:
    console.as_json(entries) if as_json else console.table(title, header, rows)
    return 0
