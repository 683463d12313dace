"""The ranking, against what one can see must come out."""

import math

import pytest

from qlrstudy.report.groups import groups, sections
from qlrstudy.report.load import load
from qlrstudy.report.profiles import cells
from qlrstudy.report.ranking import Ranking, ranking
from report_cases import write_run


def _ranking(store) -> Ranking:
    found = groups(load(store).runs)
    made = ranking(sections(found), cells(found))
    assert made is not None
    return made


def _write(store, algorithm: str, *ends: float, task: str = "uci-energy") -> None:
    for seed, end in enumerate(ends):
        write_run(store, task, algorithm, seed, losses=(1.0, end))


def test_the_ratio_is_the_geometric_mean_over_contests(tmp_path):
    for task, ours, theirs in (("uci-energy", 0.1, 0.2), ("diabetes", 0.8, 0.2)):
        _write(tmp_path, "adam", *[theirs] * 3, task=task)
        _write(tmp_path, "dog", *[ours] * 3, task=task)
    found = _ranking(tmp_path)
    ratios = {rank.algorithm: rank.ratio for rank in found.ranks}
    assert ratios == pytest.approx({"adam": 1.0, "dog": math.sqrt(0.5 * 4)})
    # Runs without noise: all that is uncertain is which contests were held.
    (dog,) = [rank for rank in found.ranks if rank.algorithm == "dog"]
    assert (dog.low, dog.high) == pytest.approx((0.5, 4.0))
    assert [score.ratio for score in dog.scores if score] == pytest.approx([4.0, 0.5])
    assert found.records["adam"]["dog"] == (1, 0, 1)
    assert found.records["dog"]["dog"] == (0, 2, 0)
    assert found.reference_title == "the tuned Adam"


def test_what_noise_cannot_tell_apart_is_marked_like_the_best(tmp_path):
    _write(tmp_path, "adam", 0.20, 0.22, 0.24)
    _write(tmp_path, "dog", 0.19, 0.23, 0.25)
    _write(tmp_path, "prodigy", 0.30, 0.31, 0.32)
    found = _ranking(tmp_path)
    assert {rank.algorithm: rank.best for rank in found.ranks} == {
        "adam": True,
        "dog": True,
        "prodigy": False,
    }
    records = found.records["adam"]
    assert records["dog"] == (0, 1, 0) and records["prodigy"] == (0, 0, 1)


def test_who_was_run_in_few_contests_is_not_the_first(tmp_path):
    for task in ("uci-energy", "diabetes", "digits"):
        _write(tmp_path, "adam", 0.2, 0.2, 0.2, task=task)
        _write(tmp_path, "dog", 0.1, 0.1, 0.1, task=task)
    _write(tmp_path, "prodigy", 0.01, 0.01, 0.01)
    found = _ranking(tmp_path)
    assert [rank.algorithm for rank in found.ranks] == ["dog", "adam", "prodigy"]
    assert [rank.best for rank in found.ranks] == [True, False, False]


def test_one_divergence_does_not_outweigh_all_else(tmp_path):
    for task in ("uci-energy", "diabetes"):
        _write(tmp_path, "adam", 0.2, 0.2, 0.2, task=task)
    _write(tmp_path, "dog", 0.1, 0.1, 1e30)  # the median run is fine
    _write(tmp_path, "dog", 1e30, 1e30, 1e30, task="diabetes")
    (dog,) = [rank for rank in _ranking(tmp_path).ranks if rank.algorithm == "dog"]
    assert dog.ratio == pytest.approx(math.sqrt(100 * 0.5))


def test_cells_with_a_tuned_adam_are_contests_of_their_own(tmp_path):
    for batch in (50, 100):
        for rate, end in ((0.1, 0.4), (0.2, 0.2), (0.3, 0.3)):
            setting = {"batch_size": batch, "learning_rate": rate}
            write_run(tmp_path, losses=(1, end), hyperparameters=setting)
        setting = {"batch_size": batch}
        write_run(tmp_path, "uci-energy", "dog", hyperparameters=setting)
    found = _ranking(tmp_path)
    assert [contest.detail for contest in found.contests] == ["batch 50", "batch 100"]
    best = [dict(c.groups["adam"].setting)["learning_rate"] for c in found.contests]
    assert best == [0.2, 0.2]


def test_a_store_with_nothing_to_compare_has_no_ranking(tmp_path):
    write_run(tmp_path)
    found = groups(load(tmp_path).runs)
    assert ranking(sections(found), cells(found)) is None
