"""One hostile or odd run breaks no report: it is inert, or left out by name."""

import json
import math

import pytest

from browser import chromium, listen
from qlrstudy.report.contents import contents
from qlrstudy.report.page import html
from qlrstudy.report.write import write
from report_cases import write_run

# NumPy warns where huge losses overflow, which is what they are here for.
pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered")

SCRIPT = "</script><script>document.title='owned';alert(1)</script>"
CASES = {
    "marks of the page": {"titles": {"task": "/*SCRIPT*/", "algorithm": "/*DATA*/"}},
    "end of a script": {"titles": {"task": SCRIPT, "algorithm": "<!--<script>"}},
    "huge setting": {"hyperparameters": {"batch_size": 50, "learning_rate": 1e308}},
    "tiny setting": {"hyperparameters": {"batch_size": 50, "learning_rate": 5e-324}},
    "huge count": {"hyperparameters": {"batch_size": 2**62, "learning_rate": 0.1}},
    "negative setting": {"hyperparameters": {"batch_size": -1, "learning_rate": -1.0}},
    "endless budget": {"budget": {"epochs": 1e300}},
    "control characters": {"task": "a\x00b\x1b[31m", "algorithm": "x\u202ey"},
    "long name": {"task": "t" * 5000},
    "name of a path": {"task": "../../etc", "algorithm": "a/b"},
    "huge loss": {"losses": (1e308, 1e308, 1e308)},
    "infinite loss": {"losses": (1.0, math.inf, math.nan), "status": "diverged"},
    "formula": {"task": "=cmd|'/c calc'!A0", "algorithm": "@SUM(1)"},
    "LaTeX": {"task": "\\input{x}%&_#{}~^", "caveats": ["$\\input{/etc/passwd}$"]},
}
# Text of a manifest that makes it unfit to be read, and so left out.
BROKEN = {
    "infinite setting": ('"learning_rate": 0.001', '"learning_rate": 1e999'),
    "huge integer": ('"learning_rate": 0.001', f'"learning_rate": {"9" * 400}'),
    "NaN budget": ('"epochs": 4000', '"epochs": NaN'),
    "lone surrogate": ('"uci-energy"', '"\\ud800"'),
    "text for a number": ('"learning_rate": 0.001', '"learning_rate": "fast"'),
}


@pytest.mark.parametrize("case", CASES)
def test_a_report_of_an_odd_run_is_written(case, tmp_path):
    write_run(tmp_path / "store", seed=5)
    write_run(tmp_path / "store", **CASES[case])
    written = write(tmp_path / "store", tmp_path / "report", "none")
    assert not written.warnings
    assert "owned" not in (tmp_path / "report" / "index.html").read_text().replace(
        json.dumps(SCRIPT)[1:-1].replace("<", "\\u003c").replace(">", "\\u003e"), ""
    )


@pytest.mark.parametrize("case", BROKEN)
def test_a_run_that_cannot_be_read_is_left_out_by_name(case, tmp_path):
    write_run(tmp_path, seed=5)
    hurt = write_run(tmp_path).path
    manifest = hurt / "manifest.json"
    before, after = BROKEN[case]
    assert before in manifest.read_text()
    manifest.write_text(manifest.read_text().replace(before, after))
    (warning,) = contents(tmp_path).warnings
    assert hurt.name in warning and "manifest.json" in warning


def test_names_that_differ_in_a_sign_have_files_of_their_own(tmp_path):
    for task in ("a+b", "a-b"):
        write_run(tmp_path, task=task)
    names = [chart.name for chart in contents(tmp_path).charts]
    assert len(names) == len(set(names))


def test_all_of_them_are_inert_in_a_browser(tmp_path):
    for seed, case in enumerate(CASES.values()):
        write_run(tmp_path / "store", seed=seed, **case)
    path = tmp_path / "page.html"
    path.write_text(html(contents(tmp_path / "store")), encoding="utf-8")
    complaints: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        listen(page, complaints)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        assert page.title() != "owned"
    assert complaints == []
