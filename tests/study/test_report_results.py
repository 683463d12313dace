"""The report of every store in `results/`, in a browser and in numbers."""

import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from browser import chromium, cut_labels, listen
from qlrstudy.report.contents import contents
from qlrstudy.report.figures import svg
from qlrstudy.report.page import data, html
from qlrstudy.report.ranking import Ranking
from qlrstudy.store.unpacking import unpack

RESULTS = sorted((Path(__file__).parents[2] / "results").glob("*.parquet"))


@pytest.fixture(scope="module", params=RESULTS, ids=lambda path: path.stem)
def found(request, tmp_path_factory):
    store = tmp_path_factory.mktemp("store") / request.param.stem
    unpack(request.param, store)
    return contents(store)


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.mark.slow
def test_every_view_opens_without_a_complaint(found, browser, tmp_path):
    path = tmp_path / "index.html"
    path.write_text(html(found), encoding="utf-8")
    complaints: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    listen(page, complaints)
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    for link in page.locator("#views a").all():
        link.click()
        view = (link.get_attribute("href") or "").removeprefix("#")
        expect(page.locator(f"main[data-view='{view}'] h1")).to_be_visible()
        drawn = page.evaluate(
            """[...document.querySelectorAll("main svg *")].flatMap((e) =>
            [...e.attributes]).filter((a) => /NaN|Infinity|undefined/.test(a.value))
            .map((a) => a.ownerElement.outerHTML)"""
        )
        assert drawn == []
        assert "NaN" not in page.locator("main").inner_text()
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto(path.as_uri())
    page.wait_for_timeout(200)
    assert cut_labels(page) == []
    page.close()
    assert complaints == []


def check_ranking(ranking: Ranking) -> None:
    """All ratios are numbers, and each contest has a winner."""
    assert any(rank.best for rank in ranking.ranks)
    for rank in ranking.ranks:
        assert 0 < rank.low <= rank.ratio <= rank.high < math.inf
    for place, contest in enumerate(ranking.contests):
        stars = [r.scores[place] for r in ranking.ranks]
        assert any(score is not None and score.best for score in stars), contest.task


@pytest.mark.slow
def test_every_number_that_is_shown_is_one(found):
    json.dumps(data(found), allow_nan=False)
    if found.ranking is None:  # Of one method by itself.
        assert len({run.algorithm for run in found.loaded.runs}) == 1
    else:
        check_ranking(found.ranking)
    for chart in found.charts:
        ElementTree.fromstring(svg(chart).encode())
        for one in chart.series if chart.kind == "curves" else ():
            for axis, values in one.x.items():
                assert np.all(np.diff(values) >= 0), (chart.name, one.title, axis)
