"""Every file of a store, damaged in ten ways: named, done again, never believed."""

import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from damage import COMMANDS, MUTATIONS, ask, complaint, look, make_store, verdict
from qlrstudy.cli import options
from qlrstudy.cli.main import main

FILES = {
    "manifest.json": "*seed0*/manifest.json",
    "records.jsonl": "*seed0*/records.jsonl",
    "positions.jsonl": "*seed0*/positions.jsonl",
    "steps.parquet": "*seed0*/steps.parquet",
    "unfinished manifest.json": "*seed2*/manifest.json",
    "unfinished records.jsonl": "*seed2*/records.jsonl",
    "unfinished positions.jsonl": "*seed2*/positions.jsonl",
    "steps.f32": "*seed2*/steps.f32",
    "checkpoint.npz": "*seed2*/checkpoint.npz",
    "some-paper.json": "studies/some-paper.json",
    "tuning.json": "tunings/*/tuning.json",
    "log.jsonl": "tunings/*/log.jsonl",
    "best.json": "tunings/*/best.json",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("damage") / "store")


@pytest.fixture(scope="module")
def whole(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    seen = look(_copy(store, folder / "store"), folder / "beside")
    assert not seen.said.strip() and len(seen.resumed) == 3 and len(seen.packed) == 2
    return seen


@pytest.fixture(scope="module")
def answers(store, tmp_path_factory):
    """What each command says of a store that nobody damaged."""
    folder = tmp_path_factory.mktemp("answers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(options, "stop_on_signals", lambda: lambda: False)
        yield {
            command: ask(command, _copy(store, folder / command), folder / "beside")
            for command in COMMANDS
        }


def _copy(store, place):
    shutil.copytree(store, place)
    return place


def _hurt(store, pattern, mutation):
    (path,) = store.glob(pattern)
    generator = np.random.default_rng(len(mutation) * 100 + len(pattern))
    path.write_bytes(MUTATIONS[mutation](path.read_bytes(), generator))
    return path


@pytest.mark.parametrize("number", range(len(FILES) * len(MUTATIONS)))
def test_every_command_names_the_damaged_file(store, answers, tmp_path, number):
    """Each file with each mutation, and each command with each file."""
    name, mutation = [(f, m) for f in FILES for m in MUTATIONS][number]
    command = [*COMMANDS][number % len(COMMANDS)]
    copy = _copy(store, tmp_path / "store")
    path = _hurt(copy, FILES[name], mutation)
    answer = ask(command, copy, tmp_path / "beside")
    problem = complaint(command, answers[command], answer, path)
    assert not problem, f"{command} after {mutation} of {name}: {problem}"


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_damaged_archive_is_named_or_what_it_was(store, tmp_path, capsys, mutation):
    file, copy = tmp_path / "whole.parquet", _copy(store, tmp_path / "store")
    assert main(["pack", str(copy), str(file)]) == 0
    whole = pq.read_table(file)
    _hurt(tmp_path, file.name, mutation)
    code = main(["unpack", str(file), str(tmp_path / "back")])
    said = capsys.readouterr().err
    assert code == 2 and f"FILE {file}: " in said or pq.read_table(file) == whole


@pytest.mark.parametrize("pattern", FILES.values(), ids=FILES)
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_damage_is_survived(store, whole, tmp_path, pattern, mutation):
    copy = _copy(store, tmp_path / "store")
    path = _hurt(copy, pattern, mutation)
    seen = look(copy, tmp_path / "beside")
    assert verdict(whole, seen, path.name) == "survived", seen.said
    if mutation == "later schema" and path.name == "manifest.json":
        assert b'"schema": 99' in path.read_bytes()  # never rewritten
        assert f"{path}: its schema is 99" in seen.said
