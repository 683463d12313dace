"""Every file of a store, damaged in ten ways: named, done again, never believed."""

import shutil

import numpy as np
import pytest

from damage import MUTATIONS, look, make_store, verdict

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
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("damage") / "store")


@pytest.fixture(scope="module")
def whole(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    shutil.copytree(store, folder / "store")
    seen = look(folder / "store", folder / "beside")
    assert not seen.said.strip() and len(seen.resumed) == 3 and len(seen.packed) == 2
    return seen


@pytest.mark.parametrize("pattern", FILES.values(), ids=FILES)
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_damage_is_survived(store, whole, tmp_path, pattern, mutation):
    copy = tmp_path / "store"
    shutil.copytree(store, copy)
    (path,) = copy.glob(pattern)
    generator = np.random.default_rng(len(mutation) * 100 + len(pattern))
    path.write_bytes(MUTATIONS[mutation](path.read_bytes(), generator))
    seen = look(copy, tmp_path / "beside")
    assert verdict(whole, seen, path.name) == "survived", seen.said
    if mutation == "later schema" and path.name == "manifest.json":
        assert b'"schema": 99' in path.read_bytes()  # never rewritten
        assert f"{path}: its schema is 99" in seen.said
