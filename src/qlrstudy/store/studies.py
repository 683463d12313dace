"""Which runs belong to which arm and point of a study, for those who read them.

    STORE/studies/<name>-<scale>.json

Commands that share a store add to the file one after the other.
"""

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from qlrstudy.store import documents, files
from qlrstudy.store.documents import SCHEMA
from qlrstudy.store.files import DamagedError, UnreadableError
from qlrstudy.store.manifest import Number

FOLDER = "studies"
_WAIT_SECONDS = 60.0


class StudyEntry(msgspec.Struct, frozen=True):
    """The repetitions of one point of an arm.

    Attributes:
        task: by name, as `scale` and `algorithm`.
        scale: of the task.
        algorithm: what learns it.
        tuned: whether the settings were searched for.
        point: the settings that the study varies, and their values here.
        hyperparameters: all of them.
        runs: their directories, relative to the store.
        unseen: whether nothing was chosen on such runs.
    """

    task: str
    scale: str
    algorithm: str
    tuned: bool
    point: dict[str, Number]
    hyperparameters: dict[str, Number]
    runs: list[str]
    unseen: bool = False

    @property
    def key(self) -> str:
        """What it is about, whatever its runs are."""
        about = [self.task, self.scale, self.algorithm, self.point]
        return json.dumps(about, sort_keys=True)


class StudyRuns(msgspec.Struct, frozen=True):
    """A study's name and title, and its runs by arm and point."""

    name: str
    title: str
    entries: list[StudyEntry] = []
    schema: int = SCHEMA


def study_file(store: Path, name: str, scale: str) -> Path:
    """Where a study's runs are listed."""
    return store / FOLDER / f"{name}-{scale}.json"


def read_study(path: Path) -> StudyRuns | None:
    """What is listed, or `None` if nothing is.

    Raises:
        DamagedError: the file cannot be read.
        NewerError: it is of a later version.
    """
    return documents.read_json(path, StudyRuns)


def enter(
    path: Path, name: str, title: str, entries: Sequence[StudyEntry]
) -> DamagedError | None:
    """Add the runs of some points, or replace them by those of new settings.

    Args:
        path: of the file; what it has of other points is kept.
        name: of the study.
        title: likewise.
        entries: what is new.

    Returns:
        What was wrong with the file, which then is kept beside the new one.
    """
    damage = None
    with _locked(path):
        try:
            known = read_study(path)
        except DamagedError as error:
            known, damage = None, error
            with files.explained(path):
                path.replace(path.with_name(f"{path.name}.damaged"))
        known = known or StudyRuns(name, title)
        by_key = {entry.key: entry for entry in (*known.entries, *entries)}
        new = StudyRuns(name, title, list(by_key.values()))
        documents.write_json(path, new)
    return damage


def merge(path: Path, other: Path) -> bool:
    """Add what a list lacks of another of the same study; what it has stays.

    Args:
        path: of the list; where there is none, the other is moved there.
        other: on the same disk.

    Returns:
        Whether the list is longer for it.

    Raises:
        UnreadableError: either cannot be read.
    """
    with _locked(path):
        known = read_study(path)
        if known is None:
            with files.explained(path):
                other.replace(path)
            return True
        new = read_study(other)
        have = {entry.key for entry in known.entries}
        found = () if new is None else new.entries
        lacking = [entry for entry in found if entry.key not in have]
        if lacking:
            entries = [*known.entries, *lacking]
            documents.write_json(path, StudyRuns(known.name, known.title, entries))
        return bool(lacking)


def _locked(path: Path) -> contextlib.AbstractContextManager[None]:
    lock = path.with_name(f".{path.name}.lock")
    return files.locked(lock, wait=_WAIT_SECONDS)


class StoredStudies(NamedTuple):
    """The studies of a store by their files, and what could not be read of them."""

    lists: dict[Path, StudyRuns]
    damage: list[UnreadableError]


def read_studies(store: Path) -> StoredStudies:
    """Every study in a store."""
    found = StoredStudies({}, [])
    for path in sorted(store.glob(f"{FOLDER}/*.json")):
        try:
            known = read_study(path)
        except UnreadableError as error:
            found.damage.append(error)
        else:
            if known is not None:
                found.lists[path] = known
    return found
