"""Adam with one learning rate throughout, over AdamQLR, by obvious sums."""

import math
from pathlib import Path

import numpy as np
import pytest

from qlrstudy.report.axes import view
from qlrstudy.report.contents import contents
from qlrstudy.report.one_rate import one_rate_chart
from report_cases import write_run

# Batch -> final losses of Adam by learning rate, and of AdamQLR.
_ADAM = {10: {1e-3: 0.8, 1e-2: 0.2, 1e-1: 0.9}, 50: {1e-3: 0.9, 1e-2: 0.6, 1e-1: 0.2}}
_OURS = {10: 0.3, 50: 0.4}


def _write(store: Path, algorithm: str, end: float, **setting: float) -> None:
    for seed, factor in enumerate((0.5, 1.0, 1.1)):
        losses, own = (1.0, factor * end), {"hyperparameters": setting, "seed": seed}
        write_run(store, algorithm=algorithm, losses=losses, **own)


def _store(store: Path) -> Path:
    for batch, rates in _ADAM.items():
        for rate, end in rates.items():
            _write(store, "adam", end, batch_size=batch, learning_rate=rate)
        _write(store, "adamqlr", _OURS[batch], batch_size=batch)
    return store


def test_each_rate_is_kept_in_all_cells(tmp_path):
    found = contents(_store(tmp_path)).one_rate
    assert found is not None and found.cells == 2
    for rate, own in found.ratios.items():
        parts = [_ADAM[batch][rate] / _OURS[batch] for batch in _ADAM]
        assert own.value == pytest.approx(math.prod(parts) ** 0.5)
        assert own.worst == pytest.approx(max(parts))
        assert own.low <= own.value <= own.high


def test_only_rates_of_all_cells_count_and_three_of_them_are_needed(tmp_path):
    _write(_store(tmp_path), "adam", 0.1, batch_size=10, learning_rate=0.5)
    found = contents(tmp_path).one_rate
    assert found is not None and list(found.ratios) == [1e-3, 1e-2, 1e-1]
    other = tmp_path / "other"
    for batch in (10, 50):
        for rate in (1e-3, 1e-2, batch / 1000):
            _write(other, "adam", 0.1, batch_size=batch, learning_rate=rate)
        _write(other, "adamqlr", 0.1, batch_size=batch)
    assert contents(other).one_rate is None


def test_one_cell_and_a_store_without_adamqlr_have_no_such_picture(tmp_path):
    for batch in (10, 50):
        for rate in (1e-3, 1e-2, 1e-1):
            _write(tmp_path, "adam", rate, batch_size=batch, learning_rate=rate)
    assert contents(tmp_path).one_rate is None
    _write(tmp_path, "adamqlr", 0.1, batch_size=10)
    found = contents(tmp_path)
    assert found.one_rate is None
    assert not [chart for chart in found.charts if chart.name == "one-rate"]
    (table,) = [table for table in found.tables if table.name == "one-rate"]
    assert "samples over cells and runs" in table.note  # and not over " cells"


def test_the_picture_is_a_valley_with_a_flat_line(tmp_path):
    found = contents(_store(tmp_path))
    assert found.one_rate is not None
    chart = one_rate_chart(found.one_rate)
    adam, ours = chart.series
    np.testing.assert_array_equal(ours.y["ratio"], 1.0)
    assert adam.y["ratio"].argmin() == 1
    assert chart.name in {own.name for own in found.charts}
    shown = view(chart, chart.y[0], log=True)
    assert shown is not None and shown.low < 1 < shown.high
