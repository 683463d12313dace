"""Studies are data: what they name is there, and they expand to the runs they say."""

import pytest

from qlrstudy.plan import Tuned, at_scale, grid
from qlrstudy.studies import STUDIES
from qlrstudy.study import groups, known_settings, tuning_of
from qlrstudy.tunings import hyperparameters, trial_run

SCALES = ("paper", "laptop", "smoke")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", list(STUDIES))
def test_every_cell_of_every_study_is_a_run(name, scale):
    study = at_scale(STUDIES[name], scale)
    assert study.name == name
    for cell in study.cells:
        tuning = tuning_of(cell)
        settings = known_settings(cell) or {}
        if tuning is not None:
            assert trial_run(tuning, 0).seed >= 1_000_000
            settings = hyperparameters(tuning, 0)
        found = list(groups(cell, settings))
        assert len(found) == len(cell.points) > 0
        for group in found:
            named = {**settings, **group.point}
            assert named.get("batch_size", group.run.shape.size) == group.run.shape.size


def test_the_papers_protocol():
    study = STUDIES["epoch-constrained"]
    tuned = [cell for cell in study.cells if isinstance(cell.settings, Tuned)]
    assert len(study.cells) == 5 * 8
    assert len(tuned) == 5 * 5
    assert all(cell.repetitions == 50 for cell in study.cells)
    for cell in tuned:
        assert isinstance(cell.settings, Tuned)
        assert (cell.settings.samples, cell.settings.seconds) == (200, 900)
    sweeps = [name for name in STUDIES if name.startswith("sensitivity-")]
    points = [len(STUDIES[name].cells[0].points) for name in sweeps]
    assert points == [11, 7, 17, 11, 7, 19, 7, 17]


def test_a_grid_has_all_combinations():
    points = grid(batch_size=(16, 64, 256), learning_rate=(0.1, 0.01))
    assert len(points) == 6
    assert {point["batch_size"] for point in points} == {16, 64, 256}
