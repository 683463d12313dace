"""Studies are data: what they name is there, and they expand to the runs they say."""

import dataclasses
import re
from pathlib import Path

import pytest

from qlrstudy import paper
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.cli.options import Changes
from qlrstudy.cli.selection import selected_study
from qlrstudy.spec import Budget
from qlrstudy.store.runs import read_runs
from qlrstudy.studies import STUDIES, estimate, overheads
from qlrstudy.studies.definition import Arm, Study, grid
from qlrstudy.studies.expand import Expansion, known_settings, points, tuning_of
from qlrstudy.studies.scales import at_scale
from qlrstudy.tasks import TASKS
from qlrstudy.training.resolve import run_with
from qlrstudy.tuning.rule import Tuned
from qlrstudy.tuning.space import hyperparameters, trial_run
from report_cases import write_run

SCALES = ("paper", "laptop", "smoke")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", list(STUDIES))
def test_every_arm_of_every_study_is_a_run(name, scale):
    study = at_scale(STUDIES[name], scale)
    assert study.name == name
    for arm in study.arms:
        tuning = tuning_of(arm)
        settings = known_settings(arm) or {}
        if tuning is not None:
            assert trial_run(tuning, 0).seed >= 1_000_000
            settings = hyperparameters(tuning, 0)
        found = list(points(arm, settings))
        assert len(found) == len(arm.points) > 0
        for point in found:
            size = point.run.shape.size
            assert {**settings, **point.varied}.get("batch_size", size) == size


def test_the_papers_protocol():
    study = STUDIES["epoch-constrained"]
    tuned = [arm for arm in study.arms if isinstance(arm.settings, Tuned)]
    assert len(study.arms) == 5 * 8
    assert len(tuned) == 5 * 5
    assert all(arm.repetitions == 50 for arm in study.arms)
    for arm in tuned:
        assert isinstance(arm.settings, Tuned)
        assert (arm.settings.samples, arm.settings.seconds) == (200, 900)
    sweeps = [name for name in STUDIES if name.startswith("sensitivity-")]
    points = [len(STUDIES[name].arms[0].points) for name in sweeps]
    assert points == [11, 7, 17, 11, 7, 19, 7, 17]


@pytest.mark.parametrize("name", ["ablation-damping", "ablation-curvature"])
def test_ablations_have_the_papers_tasks_and_two_beyond(name):
    arms = STUDIES[name].arms
    tasks = ["uci-energy", "uci-protein", "fashion-mnist", "cifar-10"]
    assert list(dict.fromkeys(arm.task for arm in arms)) == tasks
    assert len(arms) == 4 * 3 and "beyond the paper" in STUDIES[name].title


def test_a_grid_has_all_combinations():
    points = grid(batch_size=(16, 64, 256), learning_rate=(0.1, 0.01))
    assert len(points) == 6
    assert {point["batch_size"] for point in points} == {16, 64, 256}


def _lines(store, *arms: Arm) -> list[estimate.CostLine]:
    study = Study("some", "Some", arms)
    data_of = estimate.known_data(store)
    return estimate.lines(Expansion(study, "paper", store, data_of))


def test_a_program_is_compiled_once_and_each_run_evaluated(tmp_path):
    for seed, compiling in enumerate((5.0, 0.5, 0.7)):
        write_run(tmp_path, seed=seed, compile_seconds=compiling)
    write_run(tmp_path, algorithm="sgd-full", compile_seconds=7.0)
    stored = overheads.measured(read_runs(tmp_path).manifests.values())
    assert stored == {("uci-energy", "paper"): (0.5, 6.0)}
    task, algorithm = TASKS["uci-energy"]["paper"], ALGORITHMS["adam"]
    counted = overheads.Overheads(stored)
    runs = [run_with(task, algorithm, {}, seed) for seed in range(3)]
    assert counted.of((run, 4) for run in runs).seconds == 6.0 + 3 * 4 * 0.5
    assert counted.of([(runs[0], 1)]).seconds == 0.5
    vast = run_with(TASKS["penn-treebank"]["paper"], algorithm, {}, 0)
    assert counted.of([(vast, 9)]) == (0.0, {"penn-treebank"})


def test_one_run_does_not_tell_compiling_from_evaluation(tmp_path):
    write_run(tmp_path, compile_seconds=5.0)
    assert overheads.measured(read_runs(tmp_path).manifests.values()) == {}


def test_an_estimate_has_compiling_and_evaluation(tmp_path):
    """At this scale they take longer than the training."""
    study = at_scale(STUDIES["penn-treebank"], "laptop")
    trained = beside = 0.0
    for line in _lines(tmp_path, *study.arms):
        trained += line.cost.seconds
        beside += line.beside.seconds
    assert beside > trained > 0


def test_a_step_that_was_measured_has_a_price(tmp_path):
    (line,) = _lines(tmp_path, Arm("rosenbrock", "adam", {}, repetitions=7))
    step = line.cost.seconds / (7 * 200)
    assert line.missing == 7 and line.cost.unknown == 0
    assert line.cost.sources == {"step_costs.csv"}
    assert 1e-7 < step < 1e-3
    assert line.cost.longest == pytest.approx(line.cost.seconds / 7)


def test_what_was_never_measured_has_the_price_of_a_like(tmp_path):
    tuned = Tuned(samples=9, resource="epochs")
    (trials, _), (adam,) = (
        _lines(tmp_path, Arm("diabetes", "baydin-sgd", tuned, repetitions=3)),
        _lines(tmp_path, Arm("diabetes", "adam", {}, repetitions=1)),
    )
    assert (trials.cost.unknown, trials.missing) == (0, 9)
    (source,) = trials.cost.sources
    assert source == "step_costs.csv, by adam"
    assert 0 < trials.cost.seconds < 100 * adam.cost.seconds


def test_a_trial_by_seconds_ends_at_its_cap(tmp_path):
    tuned = Tuned(samples=9, seconds=3600.0)
    trials, _ = _lines(tmp_path, Arm("penn-treebank", "adam", tuned))
    (whole,) = _lines(tmp_path, Arm("penn-treebank", "adam", {}, repetitions=9))
    # Each stops at its first evaluation, after two of 100 epochs: hours above the cap.
    assert 3600 < trials.cost.longest < 0.1 * whole.cost.longest
    assert trials.cost.seconds < 0.1 * whole.cost.seconds
    assert trials.what == "tuning; ASHA trains about 2% of each"


@pytest.mark.parametrize(
    ("task", "seconds"),
    [("fashion-mnist", 357), ("uci-protein", 447), ("uci-energy", 184)],
)
def test_a_tuning_by_seconds_costs_what_it_did(tmp_path, task, seconds):
    # What all trials of `results/paper-by-seconds.parquet` trained, by their logs.
    trials, _ = _lines(tmp_path, Arm(task, "adamqlr-tuned", Tuned()))
    assert trials.cost.seconds == pytest.approx(seconds, rel=0.25)


def test_a_trial_by_epochs_is_stopped_at_the_same_part_on_any_machine(tmp_path):
    tuned = Tuned(samples=9, resource="epochs")
    trials, _ = _lines(tmp_path, Arm("fashion-mnist", "adam", tuned))
    # Ten epochs with rungs at one and four: 0.1 + 0.3 / 4 + 0.6 / 16.
    assert trials.what == "tuning; ASHA trains about 21% of each"


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", list(STUDIES))
def test_every_study_has_a_price_and_needs_no_data(name, scale, tmp_path, monkeypatch):
    monkeypatch.setenv("QLR_DATA", str(tmp_path / "nowhere"))
    study = at_scale(STUDIES[name], scale)
    data_of = estimate.known_data(tmp_path)
    lines = estimate.lines(Expansion(study, scale, tmp_path, data_of))
    assert lines
    assert not sum(line.cost.unknown for line in lines)


def test_the_data_of_a_store_are_those_of_its_runs(tmp_path):
    write_run(tmp_path, task="uci-energy", algorithm="adam")
    task = TASKS["uci-energy"]["paper"]
    assert estimate.known_data(tmp_path)(task).examples["train"] == 10
    assert estimate.known_data(tmp_path / "no")(task) == ({}, {"train": 588})


@pytest.mark.parametrize("name", ["runtime-validation", "epoch-constrained"])
def test_seconds_limit_runs_of_a_time_and_trials_of_others(name):
    study = selected_study(name, "paper", Changes(seconds=30.0))
    searches = [c.settings for c in study.arms if isinstance(c.settings, Tuned)]
    assert searches and all(search.seconds == 30.0 for search in searches)
    budgets = {arm.budget for arm in study.arms}
    timed = name == "runtime-validation"
    assert budgets == {Budget("seconds", 30.0) if timed else None}
    assert {search.budget for search in searches} == budgets


@pytest.mark.parametrize(
    ("name", "scale", "given", "count"),
    [
        ("runtime-steps", "paper", 50, 50),  # its own are 10
        ("epoch-constrained", "paper", 3, 3),
        ("epoch-constrained", "laptop", 50, 50),
        ("epoch-constrained", "laptop", None, 5),
        ("rosenbrock", "paper", 50, 1),  # all seeds would be the same run
    ],
)
def test_repetitions_are_as_many_as_are_asked_for(name, scale, given, count):
    study = selected_study(name, scale, Changes(repetitions=given))
    assert {arm.repetitions for arm in study.arms} == {count}


def test_all_that_the_paper_has_no_settings_for_is_named():
    changes = Changes(hyperparameters="paper")
    lacking = "sgd-minimal on rosenbrock, sgd-full on rosenbrock, kfac on rosenbrock"
    with pytest.raises(ValueError, match=f"{lacking}; .*--algorithms"):
        selected_study("rosenbrock", "paper", changes)
    some = dataclasses.replace(changes, algorithms=("adam", "adamqlr-tuned"))
    assert len(selected_study("rosenbrock", "paper", some).arms) == 2


def test_the_page_names_every_study():
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    named = set()
    for row in rows:
        first, *rest = re.findall("`([a-z-]+)`", row.split("|")[1])
        family = first.partition("-")[0]
        named |= {first} | {f"{family}{n}" if n[0] == "-" else n for n in rest}
    assert named == set(STUDIES)


def test_runtime_steps_are_those_of_the_papers_rows_that_lasted():
    arms = STUDIES["runtime-steps"].arms
    assert len(arms) == 11
    for arm in arms:
        task, algorithm = TASKS[arm.task]["paper"], ALGORITHMS[arm.algorithm]
        row = paper.result(task, algorithm, "runtime_constrained_validation")
        assert arm.budget == Budget("steps", row["total_steps"])
        assert row["total_time_s"] > 0.9 * paper.SECONDS[task.title]
    lasted = {(arm.task, arm.algorithm) for arm in arms}
    assert ("uci-energy", "adamqlr-untuned") not in lasted
