"""Ratios over the two tuned bars, by obvious sums, and what is kept apart."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from qlrstudy.report import profiles
from qlrstudy.report.bars import standings, stopped_test_loss
from qlrstudy.report.groups import groups
from qlrstudy.report.load import load
from qlrstudy.report.profile_tables import test_losses as table_of_test_losses
from qlrstudy.store import studies
from qlrstudy.store.studies import StudyEntry
from report_cases import stored, write_run


def _write(
    store: Path, algorithm: str, batch: int, rate: float | None, *losses: float
) -> list[str]:
    """Three seeds, each with the losses times 0.9, 1 and 1.1; the runs' directories."""
    setting = {"batch_size": batch} | ({} if rate is None else {"learning_rate": rate})
    return [
        write_run(
            store,
            algorithm=algorithm,
            seed=seed,
            losses=tuple(factor * loss for loss in losses),
            hyperparameters=setting,
        ).path.name
        for seed, factor in enumerate((0.9, 1.0, 1.1))
    ]


def _cells(store: Path) -> Sequence[profiles.Cell]:
    return profiles.cells(groups(load(store).runs))


def _two_cells(store: Path) -> list[str]:
    """Adam ends at 0.2 and 0.4, the cosine at 0.1, the method at 0.05 and 0.6."""
    for batch, best in ((10, 0.2), (50, 0.4)):
        for rate in (1e-3, 1e-2, 1e-1):
            _write(store, "adam", batch, rate, 1.0, best if rate == 1e-2 else 0.9)
            end = 0.1 if rate == 1e-1 else 0.8
            _write(store, "adamw-cosine", batch, rate, 1.0, end)
    _write(store, "prodigy", 10, None, 1.0, 0.05)
    return _write(store, "prodigy", 50, None, 1.0, 0.3, 0.6)


def test_ratios_are_geometric_means_over_cells_of_medians_over_seeds(tmp_path):
    _two_cells(tmp_path)
    found = {standing.algorithm: standing for standing in standings(_cells(tmp_path))}
    own = found["prodigy"]
    assert (own.cells, own.settings, own.runs, own.diverged) == (2, 1, 6, 0)
    assert (found["adam"].settings, found["adamw-cosine"].settings) == (3, 3)
    assert own.constant is not None and own.scheduled is not None
    over_constant, over_scheduled = (0.05 / 0.2, 0.6 / 0.4), (0.05 / 0.1, 0.6 / 0.1)
    for ratio, parts in (
        (own.constant, over_constant),
        (own.scheduled, over_scheduled),
    ):
        mean = math.exp(np.mean(np.log(parts)))
        assert ratio.value == pytest.approx(mean)
        assert ratio.median == pytest.approx(mean)  # of two
        assert ratio.worst == pytest.approx(max(parts))
        # Two cells can be drawn twice each, and seeds add a tenth each way.
        assert min(parts) * 0.7 < ratio.low < mean < ratio.high < max(parts) * 1.3
    # Stopped at its least validation loss, the second run had half of it.
    assert own.stopped_constant is not None
    stopped = math.exp(np.mean(np.log((0.05 / 0.2, 0.3 / 0.4))))
    assert own.stopped_constant.value == pytest.approx(stopped)


def test_a_bar_is_one_whatever_is_drawn(tmp_path):
    _two_cells(tmp_path)
    (adam,) = [s for s in standings(_cells(tmp_path)) if s.algorithm == "adam"]
    assert adam.constant == (2, *(1.0,) * 5)


def test_one_rate_is_no_tuned_cosine(tmp_path):
    for rate in (1e-3, 1e-2, 1e-1):
        _write(tmp_path, "adam", 10, rate, 1.0, 0.5)
    _write(tmp_path, "adamw-cosine", 10, 1e-3, 1.0, 0.5)
    assert all(own.scheduled is None for own in standings(_cells(tmp_path)))


def test_a_run_is_read_where_its_validation_loss_was_least(tmp_path):
    run = stored(tmp_path, losses=(1.0, 0.2, 0.1, 0.7))
    assert stopped_test_loss(run) == pytest.approx(1.5 * 0.1)


def test_cells_that_nothing_was_chosen_on_stand_apart(tmp_path):
    runs = _two_cells(tmp_path)
    entry = StudyEntry(
        "uci-energy", "paper", "prodigy", False, {"batch_size": 50}, {}, runs, True
    )
    studies.enter(studies.study_file(tmp_path, "some", "paper"), "some", "S", [entry])
    assert [cell.unseen for cell in _cells(tmp_path)] == [False, True]
    table = table_of_test_losses(_cells(tmp_path))
    kinds = [row[0] for row in table.rows]
    assert kinds == ["unseen"] * 3 + ["the others"] * 3
    ends = {row[1]: row[2] for row in table.rows}
    assert ends == {"Prodigy": "no", "Adam": "no", "AdamW (cosine)": "yes"}


def test_runs_of_an_earlier_version_are_left_out_and_counted(tmp_path):
    for seed, (version, started) in enumerate(
        (("", "2026-01-01"), ("2-b", "2026-01-03"), ("2-a", "2026-01-02"))
    ):
        write_run(
            tmp_path, algorithm="adamqlr", seed=seed, version=version, started=started
        )
    write_run(tmp_path, algorithm="adam", started="2025-01-01")
    loaded = load(tmp_path)
    versions = {(run.algorithm, run.version) for run in loaded.runs}
    assert versions == {("adam", ""), ("adamqlr", "2-b")} and len(loaded.runs) == 2
    ((name, problem),) = loaded.damage
    assert name == "adamqlr" and "2 runs of earlier versions" in problem
