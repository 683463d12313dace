"""What the command line says before anything is trained: help, names, tables."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from cyclopts import App
from rich.console import Console

from qlrstudy.cli import catalogue, console, lists
from qlrstudy.cli.commands import app
from qlrstudy.cli.main import main
from report_cases import small_study

COMMAND = [sys.executable, "-m", "qlrstudy"]


def _commands(parent: App, *chain: str) -> list[tuple[str, ...]]:
    """Every command that does something, by its words."""
    found = []
    for name in parent:
        if name.startswith("-"):
            continue
        own = parent[name]
        below = _commands(own, *chain, name)
        found += below or [(*chain, name)]
    return found


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 80 columns in place of stdout."""
    made = Console(force_terminal=True, width=80, record=True, color_system=None)
    monkeypatch.setattr(console, "OUT", made)
    return made


def test_lists_and_completion_know_all_there_is():
    """After a change: `python -m qlrstudy.cli.catalogue`."""
    assert catalogue.read() == json.loads(json.dumps(catalogue.make()))


@pytest.mark.parametrize("words", _commands(app), ids=" ".join)
def test_each_command_has_help_and_an_example_that_parses(words, capsys):
    assert main([*words, "--help"]) == 0
    shown = capsys.readouterr().out
    (example,) = re.findall(r"Example: qlrstudy (.*)", shown)
    assert example.split()[: len(words)] == list(words)
    app.parse_args(example, exit_on_error=False)
    assert "default: None" not in shown and "default: ()" not in shown


def test_a_reader_that_has_seen_enough_is_no_error():
    command = subprocess.Popen(
        [*COMMAND, "algorithms"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert command.stdout is not None
    command.stdout.close()
    _, said = command.communicate()
    assert said == b"" and command.returncode == 1


def test_version(capsys):
    assert main(["--version"]) == 0
    assert re.fullmatch(r"qlrstudy of adamqlr \d+\.\d+\S*\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rum", "digits", "adam"], 'Unknown command "rum". Did you mean "run"?'),
        (["data", "verfy"], 'Did you mean "verify"?'),
        (["run", "digits", "adam", "--sede", "1"], "--sede. Did you mean --seed?"),
        (["run", "digits", "adam", "--seed", "-1"], '"-1" for --seed. Must be >= 0'),
        (["tune", "digits", "adam", "--seed", "-1"], '"-1" for --seed. Must be >= 0'),
        (
            ["run", "digits", "adam", "--seed", str(2**32)],
            "--seed. Must be < 4294967296",
        ),
        (["tune", "digits", "adam", "--seed", "4294"], "--seed. Must be < 4294"),
        (
            ["repeat", "digits", "adam", "--seed", str(2**32 - 1)],
            "seed must be a whole number from 0 to 4294967295, got 4294967296",
        ),
        (["repeat", "digits", "adam", "--repetitions", "0"], "Must be >= 1"),
        (["run", "digits", "adam", "more"], "more arguments.*more.*run --help"),
        (["run", "digits"], "ALGORITHM requires an argument"),
        (["run", "digits", "adam", "--epochs", "1", "--steps", "2"], "exclusive"),
        (["study", "any-batch", "--scale", "lapto"], 'Did you mean "laptop"?'),
        (["study", "any-bach"], "NAME must be one of.*did you mean 'any-batch'"),
        (["study", "any-batch", "--tasks", "digit"], "--tasks.*did you mean 'digits'"),
        (["data", "verify", "uci-enrgy"], "SET.*did you mean 'uci-energy'"),
        (
            ["run", "digits", "adam", "--set", "learning_rat=1"],
            "hyperparameter of adam.*did you mean 'learning_rate'",
        ),
    ],
)
def test_mistakes_are_said_with_what_may_be_meant(arguments, said, capsys):
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("qlrstudy: error: ")
    assert re.search(said.replace("?", r"\?"), message, re.DOTALL)


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("st", {"status", "study", "studies"}),
        ("run di", {"digits", "diabetes"}),
        ("run digits sop", {"sophia"}),
        ("study any-batch --tasks uci-e", {"uci-energy"}),
        ("data fetch svh", {"svhn"}),
    ],
)
def test_a_shell_completes_commands_and_names(words, offered, tmp_path):
    program = tmp_path / "qlrstudy"
    program.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    script = app.generate_completion(shell="bash") + (
        f"\nPATH={tmp_path}:$PATH\nCOMP_WORDS=(qlrstudy {words})\n"
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_qlrstudy\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert set(done.stdout.split()) == offered, done.stderr


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help"], ["tasks"], ["algorithms"], ["studies"]]
)
def test_what_is_there_is_said_without_loading_it(words):
    program = (
        "import sys\nfrom qlrstudy.cli.main import main\n"
        "code = main(sys.argv[1:])\nprint('loaded:', *sys.modules)\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split("loaded:")[1].split())
    assert not loaded & {"jax", "numpy", "pyarrow", "msgspec", "ray", "sklearn"}


@pytest.mark.parametrize("kind", ["tasks", "algorithms", "studies"])
def test_lists_fit_80_columns_and_break_no_word(kind, terminal, monkeypatch, capsys):
    show = getattr(lists, kind)
    assert show(as_json=False) == 0
    shown = terminal.export_text()
    assert max(map(len, shown.splitlines())) <= 80
    monkeypatch.setattr(console, "OUT", Console(width=1000))
    capsys.readouterr()
    assert show(as_json=False) == 0
    words = set(capsys.readouterr().out.split()) - {"#"}
    assert set(catalogue.names(kind)) <= words <= set(shown.split())


def test_algorithms_say_where_a_task_has_a_range_of_its_own(capsys):
    assert main(["algorithms"]) == 0
    shown = capsys.readouterr().out
    own = "tuned in another range on penn-treebank: learning_rate, log [0.0001, 100]"
    assert shown.count("in another range") == 1 and own in shown


@pytest.mark.parametrize("width", [30, 40, 60])
def test_a_table_shrinks_where_words_can_be_parted(width, monkeypatch):
    made = Console(force_terminal=True, width=width, record=True, color_system=None)
    monkeypatch.setattr(console, "OUT", made)
    console.table("Title", ["file", "n", "problem"], [["x" * 18, "7", "a b " * 20]])
    lines = made.export_text().splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.split().count("b") for line in lines) == 20


def test_a_table_too_wide_for_the_terminal_is_written_in_paragraphs(terminal, capsys):
    name, word = "a-name-of-forty-characters-or-so-in-a-row", "x" * 64
    console.table("Title", ["file", "problem"], [[name, f"is not {word}"]])
    lines = terminal.export_text().splitlines()
    assert name in lines
    assert any(word in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_piped_tables_are_lines_of_cells(capsys):
    console.table("Title", ["a", "b c"], [["one\ntwo", ""], ["[red]x", "3"]])
    assert capsys.readouterr().out == "# Title\na\tb c\none two\t\n[red]x\t3\n"


@pytest.mark.parametrize("kind", ["tasks", "algorithms", "studies"])
def test_lists_as_json(kind, capsys):
    assert main([kind, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == catalogue.read()[kind]


def test_data_as_json_and_without_files(tmp_path, capsys):
    given = ["--data-dir", str(tmp_path), "--json"]
    assert main(["data", "list", *given]) == 0
    assert {s["present"] for s in json.loads(capsys.readouterr().out)} == {0}
    assert main(["data", "verify", "svhn", *given]) == 1
    states = [file["state"] for file in json.loads(capsys.readouterr().out)]
    assert states == ["missing", "missing"]


def test_damaged_data_are_told_at_80_columns(tmp_path, terminal, capsys):
    folder = tmp_path / "svhn"
    folder.mkdir()
    (folder / "train_32x32.mat").write_text("not a matrix")
    assert main(["data", "verify", "svhn", "--data-dir", str(tmp_path)]) == 1
    shown = terminal.export_text()
    assert "missing" in shown and "damaged" in shown
    assert "svhn/train_32x32.mat" in shown


def test_status_of_an_empty_directory_says_so(tmp_path, capsys):
    assert main(["status", str(tmp_path)]) == 0
    assert f"{tmp_path} holds no runs" in capsys.readouterr().out


def test_status_as_json(tmp_path, capsys):
    small_study(tmp_path)
    assert main(["status", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"]["uci-energy adam"]["finished"] > 0
    assert found["damage"] == []


def test_sentences_break_no_word_at_80_columns(terminal):
    sentence = "12 runs to do: about 3 min of training, `--scale laptop` is less; " * 3
    path = "/long/path" * 12
    console.tell(f"{sentence}\n    {path}")
    console.facts("Title", [("mind", sentence.strip()), ("stored in", path)])
    shown = terminal.export_text().splitlines()
    assert [line.strip() for line in shown if len(line) > 80] == [
        path,
        f"stored in  {path}",
    ]
    words = " ".join(shown[: shown.index(f"    {path}")]).split()
    assert words == sentence.split()
    below = [line for line in shown if line.startswith(" " * 13)]
    assert below and all(line[13] != " " for line in below)
