"""What is compared with what, and what a store's own runs say was swept."""

import math
import shlex

import numpy as np
import pytest

from qlrstudy.cli.commands import app
from qlrstudy.cli.selection import selected_run
from qlrstudy.report import profiles
from qlrstudy.report.groups import command, groups, sections
from qlrstudy.report.load import load
from qlrstudy.report.sweeps import sweeps
from qlrstudy.store.studies import StudyEntry, enter, study_file
from qlrstudy.training import provenance
from report_cases import small_study, write_run


def _groups(store):
    return groups(load(store).runs)


def test_the_setting_with_most_runs_is_chosen_then_the_best(tmp_path):
    rate = lambda value: {"batch_size": 50, "learning_rate": value}
    for seed in range(2):
        write_run(tmp_path, seed=seed, losses=(1, 0.3), hyperparameters=rate(0.1))
        write_run(tmp_path, seed=seed, losses=(1, 0.2), hyperparameters=rate(0.2))
    write_run(tmp_path, losses=(1, 0.1), hyperparameters=rate(0.3))  # a trial
    write_run(tmp_path, losses=(1, 0.1), hyperparameters=rate(0.4), status="running")
    (part,) = sections(_groups(tmp_path))
    (chosen,) = part.groups
    assert dict(chosen.setting)["learning_rate"] == 0.2
    assert [run.seed for run in chosen.runs] == [0, 1]


def test_a_studys_choice_goes_before_the_points_of_its_sweep(tmp_path):
    rate = lambda value: {"batch_size": 50, "learning_rate": value}
    best = write_run(tmp_path, losses=(1, 0.2), hyperparameters=rate(0.1))
    point = write_run(tmp_path, losses=(1, 0.1), hyperparameters=rate(0.2))
    entries = [
        StudyEntry("uci-energy", "paper", "adam", True, varied, {}, [run.path.name])
        for varied, run in (({}, best), ({"learning_rate": 0.2}, point))
    ]
    file = study_file(tmp_path, "sensitivity", "paper")
    enter(file, "sensitivity", "Sensitivity", entries)
    (part,) = sections(_groups(tmp_path))
    assert dict(part.groups[0].setting)["learning_rate"] == 0.1
    file.write_text("{")
    assert "studies/sensitivity-paper.json" in load(tmp_path).damage[0].run
    (part,) = sections(_groups(tmp_path))
    assert dict(part.groups[0].setting)["learning_rate"] == 0.2


def test_batch_sizes_that_were_compared_get_sections_of_their_own(tmp_path):
    for batch in (50, 400):
        for algorithm in ("adam", "sgd-minimal"):
            setting = {"batch_size": batch, "learning_rate": 0.1}
            write_run(tmp_path, algorithm=algorithm, hyperparameters=setting)
    titles = [part.title for part in sections(_groups(tmp_path))]
    # The first is of the choices, which happen to have one batch: it is not repeated.
    whole = "UCI Energy, 4000 epochs"
    assert titles == [f"{whole}, batch 50", f"{whole}, batch 400"]


def test_studies_of_the_same_time_are_shown_apart(tmp_path):
    in_time = {"budget": {"seconds": 30}, "task": "uci-energy"}
    rate = lambda value: {"batch_size": 50, "learning_rate": value}
    tuned = {
        "runtime-training": write_run(tmp_path, hyperparameters=rate(0.1), **in_time),
        "runtime-validation": write_run(tmp_path, hyperparameters=rate(0.2), **in_time),
    }
    both = write_run(tmp_path, algorithm="adam-untuned", **in_time)
    for name, run in tuned.items():
        entries = [
            StudyEntry(
                "uci-energy", "paper", algorithm, True, {}, {}, [member.path.name]
            )
            for algorithm, member in (("adam", run), ("adam-untuned", both))
        ]
        enter(study_file(tmp_path, name, "paper"), name, name, entries)
    parts = sections(_groups(tmp_path))
    rates = {
        part.key: [dict(group.setting)["learning_rate"] for group in part.groups]
        for part in parts
    }
    assert rates == {
        "uci-energy-paper-30-seconds-runtime-training": [0.1, 0.001],
        "uci-energy-paper-30-seconds-runtime-validation": [0.2, 0.001],
    }
    assert parts[0].title == "UCI Energy, 30 seconds, batch 50, runtime-training"


def test_a_sweep_is_recognised_by_what_was_run(tmp_path):
    for value in (1e-4, 1e-3, 1e-2):
        for batch in (50, 100):
            setting = {"batch_size": batch, "learning_rate": value}
            write_run(tmp_path, hyperparameters=setting)
    (sweep,) = sweeps(_groups(tmp_path))
    assert sweep.setting == "learning_rate"
    assert [line.shape for line in sweep.lines] == ["batch 50", "batch 100"]
    assert all(line.values == (1e-4, 1e-3, 1e-2) for line in sweep.lines)


def test_a_sweep_of_the_batch_may_start_elsewhere_than_at_the_choice(tmp_path):
    for batch in (50, 100, 200):
        setting = {"batch_size": batch, "learning_rate": 0.1}
        write_run(tmp_path, hyperparameters=setting, losses=(1.0, 0.5))
    write_run(tmp_path, hyperparameters={"batch_size": 50, "learning_rate": 0.01})
    (sweep,) = sweeps(_groups(tmp_path))
    assert sweep.setting == "batch_size"
    assert sweep.lines[0].values == (50, 100, 200)


def test_factors_that_are_each_others_inverse_are_one_setting(tmp_path):
    for factor in (1.0, 1.5, 2.0):
        setting = {"damping_increase": factor, "damping_decrease": 1 / factor}
        write_run(tmp_path, algorithm="adamqlr-tuned", hyperparameters=setting)
    (sweep,) = sweeps(_groups(tmp_path))
    assert sweep.setting == "damping_increase"
    assert sweep.lines[0].values == (1.0, 1.5, 2.0)


def test_random_search_is_no_sweep(tmp_path):
    generator = np.random.default_rng(0)
    for _ in range(10):
        setting = {"damping": generator.uniform(), "rescale": generator.uniform()}
        write_run(tmp_path, algorithm="adamqlr-tuned", hyperparameters=setting)
    assert sweeps(_groups(tmp_path)) == []


@pytest.mark.parametrize("budget", [{"epochs": 3}, {"steps": 7}, {"seconds": 1.5}])
def test_the_command_does_the_same_run_again(tmp_path, budget):
    setting = {"batch_size": 32, "damping": 3.03e-6, "damping_decrease": 1 / 3}
    setting |= {"damping_increase": 2.0, "rescale": 1.0}
    options = {"algorithm": "adamqlr-tuned", "hyperparameters": setting}
    write_run(tmp_path, task="digits", seed=3, budget=budget, **options)
    (group,) = _groups(tmp_path)
    words = shlex.split(command(group))
    assert words[0] == "qlrstudy"
    _, bound, _ = app.parse_args(words[1:])
    chosen = bound.arguments
    run = selected_run(
        chosen["task"], chosen["algorithm"], chosen["settings"], tmp_path
    )
    assert provenance.hyperparameters(run) == setting
    assert run.seed == 3
    assert {run.budget.unit: run.budget.amount} == budget


def test_names_of_a_store_cannot_leave_the_command(tmp_path):
    write_run(tmp_path, task="x; rm -rf ~", algorithm="$(reboot)")
    (group,) = _groups(tmp_path)
    words = shlex.split(command(group))
    assert words[2:4] == ["x; rm -rf ~", "$(reboot)"]


def test_profiles_are_the_slow_obvious_ones(tmp_path):
    small_study(tmp_path)
    (cell,) = profiles.cells(_groups(tmp_path))
    adam, qlr = cell.methods["adam"], cell.methods["adamqlr-tuned"]
    assert dict(adam.group.setting)["learning_rate"] == 1e-3
    runs = adam.group.runs
    # 4,000 epochs are 8,000 steps here, so all 30 lie in the first three quarters.
    best = [min(run.records["validation_loss"]) for run in runs]
    assert cell.target == np.median(best)
    for method in (adam, qlr):
        first = []
        for run in method.group.runs:
            hits = [
                step
                for step, loss in zip(
                    run.records["step"], run.records["validation_loss"], strict=True
                )
                if loss <= cell.target
            ]
            first.append(min(hits, default=math.inf))
        assert method.steps == np.median(first)
        times = [run.records["training_seconds"][-1] for run in method.group.runs]
        assert method.seconds == method.steps * min(times) / run.records["step"][-1]
    assert qlr.cost == pytest.approx(2.0)
    assert profiles.ratios([cell], "steps")["adamqlr-tuned"] == [1.0]


def test_a_loss_of_zero_counts_as_the_least_that_can_be_told(tmp_path):
    for rate in (0.1, 0.2, 0.3):
        setting = {"batch_size": 50, "learning_rate": rate}
        write_run(tmp_path, losses=(1, rate), hyperparameters=setting)
    setting = {"batch_size": 50}
    write_run(tmp_path, algorithm="dog", losses=(1, 0), hyperparameters=setting)
    (cell,) = profiles.cells(_groups(tmp_path))
    least = np.finfo(np.float32).eps
    assert cell.methods["dog"].training_ratio == pytest.approx(least / 0.1)
    assert cell.methods["dog"].hardest_ratio == pytest.approx(least / 0.1)


@pytest.mark.parametrize(
    ("losses", "target", "steps"),
    [
        ((0.1, 0.5, 0.9, 0.2), 0.6, 10),  # the start is below all that follows
        ((1.0, 0.5), math.inf, math.inf),  # nothing was evaluated but start and end
    ],
)
def test_the_start_is_no_target(tmp_path, losses, target, steps):
    budget = {"steps": 10 * (len(losses) - 1)}
    for rate in (1e-3, 1e-2, 1e-1):
        setting = {"batch_size": 10, "learning_rate": rate}
        write_run(tmp_path, losses=losses, hyperparameters=setting, budget=budget)
    (cell,) = profiles.cells(_groups(tmp_path))
    assert (cell.target, cell.methods["adam"].steps) == (target, steps)
    ratio = 1.0 if math.isfinite(target) else math.inf
    assert profiles.ratios([cell], "seconds")["adam"] == [ratio]


def test_the_area_is_the_integral_of_the_profile():
    own = [1.0, 1.3, 2.0, 3.9, 7.0, math.inf]
    grid = np.linspace(0, math.log(profiles.LARGEST_RATIO), 4_001)
    shares = [profiles.profile(own, ratio) for ratio in np.exp(grid[:-1])]
    assert profiles.area(own) == pytest.approx(np.mean(shares), abs=1e-3)
    assert profiles.area([1.0, 1.0]) == 1.0
    assert profiles.area([math.inf]) == 0.0


def test_a_geometric_mean_of_what_is_not_finite_is_unknown():
    assert profiles.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert math.isnan(profiles.geometric_mean([1.0, math.inf]))
    assert math.isnan(profiles.geometric_mean([]))
