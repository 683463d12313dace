"""`qlrstudy report` and `qlrstudy export`, on whole and on damaged stores."""

import json
import os
import re
import subprocess
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from qlrstudy.cli import main as command
from qlrstudy.report.contents import contents
from qlrstudy.report.figures import save
from qlrstudy.report.load import load
from qlrstudy.report.page import html
from qlrstudy.report.write import write
from report_cases import small_study, write_run

# Runs the command as a user would, then lists what it has loaded.
_PROGRAM = """
import sys
from qlrstudy.cli.main import main
code = main()
print("loaded:", *sys.modules)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    small_study(store)
    return store


def test_the_command_writes_everything_and_loads_no_framework(tmp_path):
    store, folder = tmp_path / "store", tmp_path / "report" / "new"
    write_run(store)
    program = [sys.executable, "-W", "error", "-c", _PROGRAM]
    done = subprocess.run(
        [*program, "report", str(store), "-o", str(folder)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split("loaded:")[1].split())
    assert not loaded & {"jax", "flax", "optax", "torch", "tensorflow", "matplotlib"}
    assert f"page ready: {folder / 'index.html'}" in done.stderr
    tables = {path.name for path in (folder / "tables").iterdir()}
    for name in ("epoch-constrained", "reproduction", "hyperparameters"):
        assert {f"{name}.md", f"{name}.tex", f"{name}.csv"} <= tables
    assert "profiles.md" in tables and "profiles.csv" not in tables
    assert "## What to mind" in (folder / "report.md").read_text()
    for kind, begin in (("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")):
        names = [path.name for path in (folder / "figures").glob(f"*.{kind}")]
        assert len(names) == 2
        assert all(
            (folder / "figures" / n).read_bytes()[:5][: len(begin)] == begin
            for n in names
        )
    # The same store gives the same report, byte for byte.
    again = contents(store)
    assert html(again) == (folder / "index.html").read_text()
    for path in save(next(again.charts), tmp_path):
        assert path.read_bytes() == (folder / "figures" / path.name).read_bytes()


@pytest.mark.parametrize(("formats", "kinds"), [("none", set()), ("svg", {".svg"})])
def test_figures_can_be_left_out(formats, kinds, store, tmp_path, capsys):
    given = ["report", str(store), "-o", str(tmp_path), "--figures", formats]
    assert command.main(given) == 0
    assert {path.suffix for path in tmp_path.glob("figures/*")} == kinds
    assert (tmp_path / "index.html").exists()


def test_a_packed_store_is_reported_as_its_directory_is(store, tmp_path, capsys):
    packed = tmp_path / "packed.parquet"
    assert command.main(["pack", str(store), str(packed)]) == 0
    for source, name in ((store, "directory"), (packed, "file")):
        given = ["report", str(source), "-o", str(tmp_path / name), "--figures", "none"]
        assert command.main(given) == 0
    tables = [
        {path.name: path.read_text() for path in (tmp_path / name).glob("tables/*.md")}
        for name in ("directory", "file")
    ]
    assert tables[0] == tables[1] != {}
    assert '"store":"packed"' in (tmp_path / "file" / "index.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "directory",
        "file",
        "packed.parquet",
    ]


def test_a_report_is_not_written_over_its_store(tmp_path, capsys):
    write_run(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert command.main(["report", str(tmp_path), "-o", f"{tmp_path}/."]) == 2
    assert "is the store itself" in capsys.readouterr().err.replace("\n", " ")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_second_report_keeps_nothing_of_the_first_but_what_is_not_its_own(tmp_path):
    stores, folder = (tmp_path / "1", tmp_path / "2"), tmp_path / "report"
    write_run(stores[0], task="uci-protein")
    write_run(stores[1])
    drawn = folder / "figures" / "drawn.png"
    drawn.parent.mkdir(parents=True)
    drawn.touch()
    own = [folder / "tables" / "notes.txt", folder / "photograph.png"]
    write(stores[0], folder, "svg")
    assert drawn.exists()  # before it there was no report
    for path in own:
        path.write_text("mine")
    write(stores[1], folder, "none")
    write(stores[1], tmp_path / "alone", "none")
    names = {
        path.relative_to(folder) for path in folder.rglob("*") if path.is_file()
    } - {path.relative_to(folder) for path in own}
    alone = tmp_path / "alone"
    assert all(path.read_text() == "mine" for path in own)
    assert names == {p.relative_to(alone) for p in alone.rglob("*") if p.is_file()}


def test_the_last_lines_are_the_verdict_and_the_page(store, tmp_path, capsys):
    given = ["report", str(store), "-o", str(tmp_path), "--figures", "none"]
    assert command.main(given) == 0
    *_, title, header, first, _, mark, last = capsys.readouterr().out.splitlines()
    assert title.startswith("# Who wins: final test loss over the tuned Adam's")
    assert header.split("\t")[1] == "method"
    assert first.split("\t")[:2] == ["1 *", "AdamQLR-paper, tuned"]
    assert mark.startswith("* ") and last == f"page: {tmp_path / 'index.html'}"


def test_every_figure_that_the_runs_allow_is_drawn(store):
    drawn = {chart.name for chart in contents(store).charts if chart.printed}
    energy, fashion = "uci-energy-paper-4000-epochs", "fashion-mnist-paper-10-epochs"
    assert drawn == {
        *(f"{energy}-{kind}" for kind in ("loss", "evolution", "cost")),
        *(f"{fashion}-{kind}" for kind in ("loss", "accuracy", "evolution", "cost")),
        *(f"rosenbrock-shown-20-steps-{kind}" for kind in ("loss", "evolution")),
        "rosenbrock-shown-20-steps-paths",
        *(
            f"{kind}-{energy}-{swept}"
            for kind in ("sensitivity", "trajectories")
            for swept in ("adam-learning-rate", "adamqlr-tuned-damping")
        ),
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "{tmp}/gone"], "must be a directory of runs.*gone"),
        (["report", "{tmp}"], "holds no runs.*qlrstudy run"),
        (["report", __file__], "FILE.*qlrstudy pack"),
        (["report", "{store}", "-o", "/proc/nowhere"], "-o.*cannot write.*/proc"),
        (["export", "tensorboard", "{tmp}/gone", "{tmp}/x"], "must be a directory"),
        (["export", "tensorboard", "{store}", "/proc/x"], "DIR.*cannot write.*/proc"),
    ],
)
def test_mistakes_name_argument_value_and_cure(
    arguments, said, store, tmp_path, capsys
):
    given = [word.format(tmp=tmp_path, store=store) for word in arguments]
    assert command.main(given) == 2
    message = capsys.readouterr().err
    assert message.startswith("qlrstudy: error: ")
    assert re.search(said, message, re.DOTALL)


def test_a_store_whose_runs_have_not_ended_says_so(tmp_path, capsys):
    write_run(tmp_path, status="running")
    assert command.main(["report", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    assert "none has ended" in capsys.readouterr().err


def _damage(path, kind: str) -> None:
    manifest = path / "manifest.json"
    if kind == "garbage":
        manifest.write_bytes(b"\x00\xff{]")
    elif kind == "cut":
        manifest.write_text(manifest.read_text()[:40])
    elif kind == "missing":
        manifest.unlink()
    elif kind == "list":
        manifest.write_text("[1, 2]")
    elif kind == "schema":
        manifest.write_text(
            json.dumps(json.loads(manifest.read_text()) | {"schema": 9})
        )
    elif kind == "field":
        content = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(content | {"hyperparameters": {"rate": "fast"}}))
    elif kind == "records":
        (path / "records.jsonl").write_text('{"step": 1}\n[3]\n')
    elif kind == "empty":
        (path / "records.jsonl").write_text("")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("garbage", "manifest.json is damaged"),
        ("cut", "manifest.json is damaged"),
        ("missing", "manifest.json is missing"),
        ("list", "manifest.json is damaged.*array"),
        ("schema", "schema is 9"),
        ("field", "manifest.json is damaged.*str.*hyperparameters"),
        ("records", "records.jsonl cannot be read"),
        ("empty", "no evaluation"),
    ],
)
def test_a_damaged_run_is_named_and_the_rest_reported(kind, said, tmp_path):
    whole = write_run(tmp_path, seed=0)
    hurt = write_run(tmp_path, seed=1)
    _damage(hurt.path, kind)
    loaded = load(tmp_path)
    assert [run.name for run in loaded.runs] == [whole.path.name]
    (damage,) = loaded.damage
    assert damage.run == hurt.path.name
    assert re.search(said + ".*left out", damage.problem)
    assert any(hurt.path.name in line for line in contents(tmp_path).warnings)


def test_a_run_with_cut_steps_keeps_its_evaluations(tmp_path):
    directory = write_run(tmp_path)
    steps = directory.path / "steps.parquet"
    os.truncate(steps, steps.stat().st_size // 2)
    loaded = load(tmp_path)
    assert len(loaded.runs) == 1 and len(loaded.runs[0].steps) == 0
    assert "steps.parquet is damaged" in loaded.damage[0].problem
    html(contents(tmp_path))


def test_only_what_went_wrong_is_to_be_minded(tmp_path):
    run = write_run(tmp_path, seed=0)
    assert contents(tmp_path).warnings == []  # though hardly any table has rows
    write_run(tmp_path, seed=1, status="running")
    where = {"task": "uci-energy", "scale": "paper", "algorithm": "adam"}
    what = {"tuned": False, "point": {}, "hyperparameters": {}}
    entries = [{**where, **what, "runs": [run.path.name, "gone-1", "gone-2"]}]
    book = tmp_path / "studies" / "small.json"
    book.parent.mkdir()
    book.write_text(json.dumps({"name": "small", "title": "Small", "entries": entries}))
    assert contents(tmp_path).warnings == [
        "runs that have not ended, and are left out: 1",
        "studies/small.json: 2 planned runs are absent",
    ]


def test_only_damage_is_an_error_that_names_the_first(tmp_path):
    _damage(write_run(tmp_path).path, "garbage")
    with pytest.raises(ValueError, match="1 damaged runs.*manifest.json is damaged"):
        load(tmp_path)


def test_tensorboard_reads_what_was_exported(tmp_path, capsys):
    store, folder = tmp_path / "store", tmp_path / "events"
    run = write_run(store, algorithm="adamqlr-tuned", losses=(1.0, 0.5, 0.25))
    for _ in range(2):  # again: replaced, not added to
        assert command.main(["export", "tensorboard", str(store), str(folder)]) == 0
    events = EventAccumulator(str(folder / run.path.name))
    events.Reload()
    scalars = events.Scalars("evaluation/test_loss")
    assert [(event.step, event.value) for event in scalars] == [
        (0, 1.5),
        (10, 0.75),
        (20, 0.375),
    ]
    assert scalars[1].wall_time - scalars[0].wall_time == pytest.approx(1.0)
    assert len(events.Scalars("step/damping")) == 20
    text = events.Tensors("setting")
    assert b"learning_rate: 0.001" in text[0].tensor_proto.string_val[0]
