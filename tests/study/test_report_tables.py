"""Tables against files that were read by a person, and text that must stay text."""

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from qlrstudy import paper
from qlrstudy.algorithms import ALGORITHMS
from qlrstudy.report import latex, render, styles
from qlrstudy.report import tables as tables_of
from qlrstudy.report.comparison import (
    ALWAYS,
    OTHER_BATCH,
    STUDIES,
    Compared,
    comparisons,
    explanations,
    verdicts,
)
from qlrstudy.report.contents import contents
from qlrstudy.report.groups import groups, sections
from qlrstudy.report.load import load
from qlrstudy.report.statistics import Estimate
from qlrstudy.report.tables import Table
from qlrstudy.spec import Budget
from qlrstudy.store import studies
from qlrstudy.store.manifest import Machine
from qlrstudy.store.studies import StudyEntry
from qlrstudy.tasks import TASKS
from report_cases import small_study, write_run

EXPECTED = Path(__file__).parent / "expected"
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, Table]:
    store = tmp_path_factory.mktemp("store")
    small_study(store)
    return {table.name: table for table in contents(store).tables}


@pytest.mark.parametrize(
    "name", [path.name for path in sorted(EXPECTED.glob("*.*"))] or ["none"]
)
def test_tables_are_as_they_were(tables, name):
    make = {"md": render.markdown, "tex": latex.latex, "csv": render.comma_separated}
    stem, kind = name.split(".")
    assert make[kind](tables[stem]) == (EXPECTED / name).read_text()


def test_what_is_missing_is_said(tables):
    runtime = tables["runtime-constrained-training"]
    assert runtime.rows == ()
    assert runtime.missing == (
        "no runs of the paper's tasks with its budget in seconds",
    )
    lacking = " ".join(tables["epoch-constrained"].missing)
    assert "UCI Energy: no runs of SGD Minimal" in lacking
    assert (
        "AdamQLR-paper, untuned"
        not in lacking.split("Fashion-MNIST")[1].split("SVHN")[0]
    )


def test_text_of_a_store_stays_text():
    hostile = "a|b <script> $x_1$ \\input{/etc/passwd} & 100% #[x](y)\n=1+1"
    table = Table("t", hostile, (hostile,), ((hostile,), ("=cmd",)))
    markdown = render.markdown(table)
    assert "<script>" not in markdown and "\n=1" not in markdown
    assert all(
        line.count("|") - line.count("\\|") == 2
        for line in markdown.split("\n")[2:6]
        if line
    )
    written = latex.latex(table)
    assert r"\input" not in written and r"\textbackslash{}input\{" in written
    rows = list(csv.reader(io.StringIO(render.comma_separated(table))))
    assert rows[1] == [hostile]
    assert rows[2] == ["'=cmd"]


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex")
def test_latex_compiles_and_fits_its_pages(tables, tmp_path):
    made = [latex.latex(table) for table in tables.values() if table.rows]
    begin = [r"\documentclass[a4paper]{article}", latex.PREAMBLE, r"\begin{document}"]
    text = "\n".join([*begin, *made, r"\end{document}"])
    (tmp_path / "tables.tex").write_text(text, "utf-8")
    for _ in range(3):  # longtable settles its columns from run to run
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tables.tex"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            errors="replace",
        )
        assert done.returncode == 0, done.stdout[-2000:]
    wide = re.findall(r"Overfull \\hbox \((\d+)", done.stdout)
    assert all(int(points) < 10 for points in wide), wide


def test_a_section_has_no_column_that_nothing_fills(tmp_path):
    for task in ("uci-energy", "fashion-mnist"):
        write_run(tmp_path, task=task)
    made = [
        tables_of.section_results(own) for own in sections(groups(load(tmp_path).runs))
    ]
    assert ["test accuracy" in table.header for table in made] == [False, True]
    for table in made:
        (row,) = table.rows
        assert len(row) == len(table.header) and None not in row


def test_apart_is_in_combined_errors():
    both = Compared(Estimate(1.0, 0.3), Estimate(2.0, 0.4))
    assert both.apart == pytest.approx(-2.0)
    assert render.text(both) == "1 ± 0.3 / 2 ± 0.4 (-2.0)"
    assert Compared(Estimate(3.0, 0.0), Estimate(3.0, 0.0)).apart == 0


def test_a_number_agrees_differs_or_is_explained(tmp_path):
    row = paper.result(TASKS["uci-energy"]["paper"], ALGORITHMS["adam"])
    loss = row["test_loss"] / 1.5
    for seed in range(10):
        write_run(tmp_path, seed=seed, losses=(1.0, loss))
    write_run(tmp_path, algorithm="adam-untuned", losses=(1.0, 0.001147 / 1.5))
    write_run(tmp_path, algorithm="adamqlr-untuned", losses=(1.0, 0.0005))
    write_run(tmp_path, algorithm="sgd-full", losses=(1.0, 0.1))
    words = {
        (verdict.group.algorithm, verdict.quantity.column): verdict
        for verdict in verdicts(comparisons(groups(load(tmp_path).runs)))
    }
    assert words["adam", "test_loss"].word == "agrees"
    assert words["adam-untuned", "test_loss"].word == "undecided"  # one run
    assert words["sgd-full", "test_loss"].word == "differs"
    divergence = words["adamqlr-untuned", "test_loss"]
    assert divergence.word == "explained"
    assert divergence.explanation is not None
    assert "588 rows" in divergence.explanation.text
    # Its error of 1e29 would let anything agree.
    assert words["adamqlr-untuned", "generalisation_gap"].word == "explained"


def test_the_papers_steps_stand_in_for_its_time(tmp_path):
    own = {"algorithm": "adam-untuned", "losses": (1.0, 0.5)}
    write_run(tmp_path, budget={"seconds": 30.0}, **own)
    found = comparisons(_groups(tmp_path))
    hows = {(row.study.ours, row.how) for row in found}
    short = "30 seconds in place of 900"
    assert hows == {("runtime-validation", short), ("runtime-training", short)}
    assert not list(verdicts(found))  # less time is shown, not judged
    write_run(tmp_path, budget={"steps": 45_570}, **own)
    found = comparisons(_groups(tmp_path))
    assert {row.how for row in found} == {"at the paper's steps"}
    assert len(list(verdicts(found))) == 2 * 4


def test_fewer_epochs_stand_beside_the_papers_and_are_not_judged(tmp_path):
    own = {"algorithm": "adam-untuned", "losses": (1.0, 0.5)}
    write_run(tmp_path, budget={"epochs": 10}, **own)
    (row,) = found = comparisons(_groups(tmp_path))
    assert (row.study.ours, row.how) == (
        "epoch-constrained",
        "10 epochs in place of 4000",
    )
    assert not list(verdicts(found))
    write_run(tmp_path, budget={"epochs": 4000}, **own)
    (row,) = comparisons(_groups(tmp_path))
    assert row.how == ""  # the paper's own budget comes first


def test_machines_are_listed_beside_the_papers(tmp_path):
    machine = Machine(
        host="h", system="Linux", processor="P", cores=2, backend="cpu", devices=["cpu"]
    )
    made = {"machine": msgspec.to_builtins(machine), "versions": {"jax": "0.9"}}
    for seed in range(3):
        write_run(tmp_path, seed=seed, **made)
    rows = tables_of.machines(load(tmp_path).runs).rows
    assert [row[0] for row in rows] == ["Consumer Desktop", "Local Cluster", "Linux"]
    assert rows[2][1:] == ("3 runs", "P, 2 cores", "cpu: cpu", "–", "0.9", "–")


def test_a_tasks_own_range_is_among_the_search_spaces(tmp_path):
    for task in ("uci-energy", "uci-protein", "penn-treebank"):
        bounds = TASKS[task]["paper"].searched(ALGORITHMS["adam"])["learning_rate"]
        space = {"low": bounds.low, "high": bounds.high, "complement": False}
        titles = {"task": TASKS[task]["paper"].title, "algorithm": "Adam"}
        search = {"learning_rate": space}
        write_run(tmp_path, task=task, titles=titles, search=search)
    assert tables_of.search_spaces(_groups(tmp_path)).rows == (
        ("Adam", "learning rate", "log [1e-06, 1]", "UCI Energy, UCI Protein"),
        ("Adam", "learning rate", "log [0.0001, 100]", "Penn Treebank"),
    )


def test_a_batch_alone_can_be_tuned_too(tmp_path):
    run = write_run(tmp_path, algorithm="adamqlr-undamped").path.name
    write_run(tmp_path, algorithm="adam-untuned")
    where = ("uci-energy", "paper", "adamqlr-undamped")
    entry = StudyEntry(*where, tuned=True, point={}, hyperparameters={}, runs=[run])
    studies.enter(studies.study_file(tmp_path, "some", "paper"), "some", "S", [entry])
    assert tables_of.search_spaces(_groups(tmp_path)).note == (
        "Tuned in the batch alone: AdamQLR-paper, undamped. Not tuned: Adam (Untuned)."
    )


@pytest.mark.parametrize(
    ("batch", "steps", "word"),
    [
        (50, 48_000, "explained"),  # the paper has 100: 6 steps an epoch of 588
        (100, 48_000, "differs"),  # the paper's own batch explains nothing
    ],
)
def test_steps_of_another_batch_are_explained(tmp_path, batch, steps, word):
    write_run(
        tmp_path,
        algorithm="sgd-minimal",
        hyperparameters={"batch_size": batch, "learning_rate": 0.1},
        steps_between=steps // 2,
        examples={"train": 588, "validation": 66, "test": 114},
    )
    found = {v.quantity.column: v for v in verdicts(comparisons(_groups(tmp_path)))}
    verdict = found["total_steps"]
    assert verdict.word == word
    if word == "explained":
        assert verdict.explanation is not None
        assert "50 examples, in the paper 100" in verdict.explanation.text
        path, anchor = verdict.explanation.link.removeprefix("docs/").split("#")
        assert anchor in _anchors(DOCS / path)


@pytest.mark.parametrize(
    ("batch", "loss", "word"),
    [
        (1600, 0.41, "explained"),  # the paper has 3200 and a loss of 0.371
        (1600, 0.5, "differs"),  # more than another batch was seen to do
        (3200, 0.41, "differs"),  # the paper's own batch explains nothing
    ],
)
def test_a_loss_of_another_batch_is_explained_where_that_was_shown(
    tmp_path, batch, loss, word
):
    write_run(
        tmp_path,
        task="fashion-mnist",
        titles={"task": "Fashion-MNIST", "algorithm": "AdamQLR-paper, tuned"},
        algorithm="adamqlr-tuned",
        hyperparameters={"batch_size": batch},
        budget={"epochs": 10},
        losses=(1.0, loss / 1.5),
    )
    found = {v.quantity.column: v for v in verdicts(comparisons(_groups(tmp_path)))}
    assert found["test_loss"].word == word


def _groups(store):
    return groups(load(store).runs)


def test_only_the_papers_protocol_is_compared_with_the_paper(tmp_path):
    write_run(tmp_path, budget={"epochs": 4001})
    write_run(tmp_path, scale="laptop")
    write_run(tmp_path, seed=1, caveats=["another protocol"])
    assert comparisons(_groups(tmp_path)) == []


def test_partial_data_stand_beside_the_paper_and_are_not_judged(tmp_path):
    write_run(tmp_path, caveats=["partial data: half"])
    grouped = _groups(tmp_path)
    found = comparisons(grouped)
    table = tables_of.results(found, STUDIES[0])
    assert [row[:3] for row in table.rows] == [
        ("UCI Energy", "Adam", "1, partial data")
    ]
    assert "/ 0.000768 ± 2.9e-05" in render.text(table.rows[0][5])
    assert "Adam;" not in table.missing[0]
    assert tables_of.other_results(sections(grouped), found).rows == ()
    assert list(verdicts(found)) == []


def test_all_data_come_before_a_part_of_them(tmp_path):
    for seed in range(3):
        write_run(tmp_path, seed=seed, caveats=["partial data: half"])
    write_run(tmp_path, seed=9)
    (row,) = comparisons(_groups(tmp_path))
    assert row.how == ""
    assert [run.seed for run in row.group.runs] == [9]


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def test_every_explanation_points_at_a_heading():
    for row in explanations():
        path, anchor = row["link"].removeprefix("docs/").split("#")
        assert anchor in _anchors(DOCS / path)
        assert row["task"] in {"*", *TASKS}
        assert row["algorithm"] in {"*", *ALGORITHMS}
        assert row["study"] in paper.RESULT_TABLES
        assert row["when"] in {"", ALWAYS, OTHER_BATCH}


def test_the_report_knows_titles_and_budgets_as_the_study_does():
    for name, algorithm in ALGORITHMS.items():
        assert styles.algorithm_title(name, "stored") == algorithm.title
    for name, scales in TASKS.items():
        assert styles.task_title(name) == scales["paper"].title
        title = scales["paper"].title
        if title in paper.EPOCHS:
            assert scales["paper"].budget == Budget("epochs", paper.EPOCHS[title])
    assert set(paper.EPOCHS) == {r["dataset"] for r in paper.table("epoch_constrained")}


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_styles_can_be_told_apart_on_light_and_dark():
    looks = {name: styles.style(name)[1:] for name in styles.ALGORITHMS}
    assert len(set(looks.values())) == len(looks)
    assert len({look[1:] for look in looks.values()}) >= 20  # in grey: dash and marker
    for colour in {look[0] for look in looks.values()} - {styles.INK}:
        for page in ("#ffffff", "#181c22"):
            light, dark = sorted([_luminance(colour), _luminance(page)])[::-1]
            assert (light + 0.05) / (dark + 0.05) >= 3
    assert styles.style("new-one") == styles.style("new-one")
    assert styles.style("new-one") != styles.style("new-two")
