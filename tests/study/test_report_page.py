"""The page in a real browser: it draws, answers, and shows hostile text as text."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser import chromium, cut_labels, listen
from qlrstudy.report.axes import view
from qlrstudy.report.contents import contents
from qlrstudy.report.figures import svg
from qlrstudy.report.page import _SCRIPTS, _asset, html
from report_cases import small_study, write_run

HOSTILE = '</script><script>document.title="owned"</script><img src=x onerror=alert(1)>'


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    small_study(folder / "small")
    for algorithm in ("'\"><svg/onload=alert(2)>", "$\\alpha$"):
        write_run(
            folder / "hostile",
            task=HOSTILE,
            algorithm=algorithm,
            scale="<b>bold</b>",
            caveats=["<i>partial</i> data: \u2028 line"],
            titles={"task": HOSTILE, "algorithm": algorithm + "x" * 500},
            hyperparameters={"batch_size": 5, "<u>rate</u>": 0.1},
            losses=(1.0, math.nan, 1e30),
        )
    found = {}
    for name in ("small", "hostile"):
        found[name] = folder / f"{name}.html"
        found[name].write_text(html(contents(folder / name)), encoding="utf-8")
    return found


@pytest.fixture
def open_page(browser, files):
    """Opens a page by a file URL, and at the end asks for its complaints: none."""
    complaints: list[str] = []
    context = browser.new_context(
        viewport={"width": 1280, "height": 900}, color_scheme="light", offline=True
    )

    def open_(name: str, view: str = "overview") -> Page:
        page = context.new_page()
        listen(page, complaints)
        page.goto(f"{files[name].as_uri()}#{view}")
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_
    context.close()
    assert complaints == []


ENERGY = "uci-energy-paper-4000-epochs"
CHART = "section.card:has(h2:text('Loss and accuracy'))"


def _curve(page: Page, algorithm: str) -> str | None:
    path = page.locator(f"{CHART} g[data-algorithm='{algorithm}'] path.curve")
    return path.get_attribute("d")


def test_every_view_opens_without_a_complaint(open_page):
    page = open_page("small")
    links = page.locator("#views a")
    for link in links.all():
        link.click()
        view = (link.get_attribute("href") or "").removeprefix("#")
        expect(page.locator(f"main[data-view='{view}'] h1")).to_be_visible()
        expect(link).to_have_attribute("aria-current", "page")
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0
    assert links.count() == 6


def test_toggling_an_algorithm_draws_or_removes_it(open_page):
    page = open_page("small", ENERGY)
    curves = page.locator(f"{CHART} path.curve")
    expect(curves).to_have_count(2)
    toggle = page.get_by_role("button", name="AdamQLR-paper, tuned", exact=True)
    expect(toggle).to_have_attribute("aria-pressed", "true")
    toggle.press("Enter")
    expect(toggle).to_have_attribute("aria-pressed", "false")
    expect(curves).to_have_count(1)
    page.get_by_role("button", name="all", exact=True).click()
    expect(curves).to_have_count(2)


def test_axes_and_quantities_change_what_is_drawn(open_page):
    page = open_page("small", ENERGY)
    seen = {_curve(page, "adam")}
    chart = page.locator(CHART)
    for group, name in (
        ("Horizontal axis", "steps"),
        ("Horizontal scale", "log"),
        ("Vertical axis", "linear"),
    ):
        chart.get_by_role("group", name=group).get_by_role("button", name=name).click()
        seen.add(_curve(page, "adam"))
    chart.get_by_label("Quantity").select_option("training_loss")
    label = chart.locator("svg text.label", has_text="training loss")
    expect(label).to_be_visible()
    assert len(seen) == 4


def _ticks(page: Page) -> list[str]:
    return page.locator(f"{CHART} svg > text:not(.label)").all_text_contents()


def test_axes_are_those_of_the_figures_until_a_reader_zooms(open_page, tmp_path):
    small_study(tmp_path / "small")
    charts = {chart.name: chart for chart in contents(tmp_path / "small").charts}
    chart = charts[f"{ENERGY}-loss"]
    page = open_page("small", ENERGY)
    card = page.locator(CHART)

    def chosen(*, log: bool) -> list[str]:
        views = view(chart, chart.x[0], log=False), view(chart, chart.y[0], log=log)
        return [text for own in views if own is not None for _, text in own.ticks]

    assert _ticks(page) == chosen(log=True)
    assert set(_ticks(page)) <= set(re.findall(r">([^<]+)</text>", svg(chart)))
    toggle = page.get_by_role("button", name="AdamQLR-paper, tuned", exact=True)
    toggle.click()
    assert _ticks(page) == chosen(log=True)
    toggle.click()
    kinds = card.get_by_role("group", name="Vertical axis")
    kinds.get_by_role("button", name="linear").click()
    assert _ticks(page) == chosen(log=False)
    card.get_by_label("Zoom in").click()
    assert _ticks(page) != chosen(log=False)
    card.get_by_label("Reset zoom").click()
    assert _ticks(page) == chosen(log=False)


def test_dragging_zooms_and_a_double_click_resets(open_page):
    page = open_page("small", ENERGY)
    before, ticks = _curve(page, "adam"), _ticks(page)
    plot = page.locator(f"{CHART} svg[role=application]")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 420, box["y"] + 240, steps=4)
    page.mouse.up()
    assert _curve(page, "adam") != before
    assert _ticks(page) != ticks
    page.locator(f"{CHART} svg[role=application]").dblclick()
    assert _curve(page, "adam") == before


def test_hovering_and_the_keyboard_tell_values(open_page):
    page = open_page("small", ENERGY)
    plot = page.locator(f"{CHART} svg[role=application]")
    plot.hover(position={"x": 300, "y": 150})
    tip = page.locator(f"{CHART} .tip")
    expect(tip).to_contain_text("training time (s)")
    expect(tip).to_contain_text("AdamQLR")
    plot.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#said")).to_contain_text("Adam")
    before = _curve(page, "adam")
    page.keyboard.press("+")
    assert _curve(page, "adam") != before
    page.keyboard.press("0")
    assert _curve(page, "adam") == before


def test_tables_sort_and_filter(open_page):
    page = open_page("small", "tables")
    table = page.locator("section.card", has_text="Reproduction: every number")
    column = table.locator("tbody td:nth-child(8)")
    head = table.get_by_role("button", name="apart")
    read = lambda: [
        float(text.replace("∞", "inf").replace("−", "-"))
        for text in column.all_inner_texts()
    ]
    head.click()
    assert read() == sorted(read())
    head.click()
    assert read() == sorted(read(), reverse=True)
    expect(table.locator("th", has_text="apart")).to_have_attribute(
        "aria-sort", "descending"
    )
    table.get_by_role("searchbox").fill("k-fac")
    expect(table.locator("tbody tr")).to_have_count(6)


def test_the_data_behind_a_plot_can_be_had(open_page):
    page = open_page("small", ENERGY)
    with page.expect_download() as download:
        page.locator(CHART).get_by_label("Download the data of this plot").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0] == "algorithm,training time (s),test loss,error"
    assert len(lines) == 1 + 2 * 4
    assert download.value.suggested_filename == f"{ENERGY}-loss-test_loss.csv"


def test_the_command_behind_a_curve_is_shown(open_page):
    page = open_page("small", ENERGY)
    page.locator("summary", has_text="AdamQLR").click()
    details = page.locator("details[open]")
    expect(details).to_contain_text("qlrstudy run uci-energy adamqlr-tuned")
    expect(details).to_contain_text("--seed")
    expect(details.get_by_role("button", name="Copy command")).to_be_visible()


def test_the_overview_says_who_wins(open_page):
    page = open_page("small")
    ranking = page.locator("section.card", has_text="Who wins")
    rows = ranking.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("★ AdamQLR")
    expect(rows.first.locator("td").nth(5)).to_have_text("1 / 0 / 0")
    ranking.get_by_label("Reference").select_option("adamqlr-tuned")
    expect(rows.nth(1).locator("td").nth(5)).to_have_text("0 / 0 / 1")
    heat = page.locator("section.card", has_text="Method by task and batch")
    expect(heat.locator("td.best")).to_contain_text("★ 0.50")
    heat.get_by_role("link", name="batch 50").click()
    expect(page.locator(f"main[data-view='{ENERGY}'] h1")).to_be_visible()


def test_what_was_not_asked_for_is_not_missed(open_page):
    page = open_page("small")
    assert page.locator(".notice").count() == 0
    expect(page.locator("#views")).to_contain_text("What to mind (0)")


def test_a_curve_that_leaves_the_plot_has_a_mark(open_page):
    page = open_page("small", ENERGY)
    assert page.locator(f"{CHART} path.cut").count() == 0
    page.locator(CHART).get_by_label("Zoom in").click()
    assert page.locator(f"{CHART} path.cut").count() > 0


def test_rosenbrock_has_its_path(open_page):
    page = open_page("small", "rosenbrock-shown-20-steps")
    valley = page.locator("section.card", has_text="Path over the valley")
    expect(valley.locator("path.curve")).to_have_count(1)
    # both sides of twelve heights, and a cross at the minimum
    expect(valley.locator("path.behind")).to_have_count(2 * 12 + 2)


def test_light_and_dark(open_page):
    page = open_page("small")
    ground = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = ground()
    page.get_by_role("button", name="Switch to the dark theme").click()
    assert ground() != light
    page.get_by_role("button", name="Switch to the light theme").click()
    assert ground() == light


def test_a_narrow_screen_scrolls_in_one_direction(open_page):
    page = open_page("small", ENERGY)
    page.set_viewport_size({"width": 360, "height": 740})
    expect(page.locator(f"{CHART} path.curve").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_a_table_that_goes_on_says_so(open_page):
    page = open_page("small")
    page.set_viewport_size({"width": 360, "height": 740})
    card = page.locator("section.card", has_text="Who wins")
    expect(card.locator(".more")).to_contain_text("Scroll for more →")
    card.locator(".scroll").evaluate("e => e.scrollTo(e.scrollWidth, 0)")
    expect(card.locator(".more")).to_have_text("")


def test_labels_are_whole_on_a_telephone(open_page):
    page = open_page("small", ENERGY)
    page.set_viewport_size({"width": 360, "height": 740})
    page.wait_for_timeout(200)
    assert cut_labels(page) == []


def test_scripts_use_no_name_that_is_not_there_and_leave_none_unused(tmp_path):
    """As the page has them: in one piece."""
    script, settings = tmp_path / "joined.js", tmp_path / "settings.json"
    script.write_text("\n".join(map(_asset, _SCRIPTS)), "utf-8")
    settings.write_text('{"env": {"browser": true, "es2024": true}}')
    lint = [Path(sys.executable).with_name("oxlint"), "--config", settings]
    done = subprocess.run(
        [*lint, "--deny-warnings", "--deny=no-undef", script],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_everything_that_acts_has_a_name(open_page):
    page = open_page("small", ENERGY)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, a, [tabindex]")]
        .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim()
          || e.labels?.length)).map((e) => e.outerHTML)"""
    )
    assert nameless == []
    page.keyboard.press("Tab")
    expect(page.locator("a.skip")).to_be_focused()


@pytest.mark.parametrize("view", [0, "overview", "tables", "mind"])
def test_hostile_text_is_shown_as_text(open_page, view):
    page = open_page("hostile")
    if isinstance(view, int):
        view = page.evaluate(f"DATA.sections[{view}].id")
    page.evaluate(f"location.hash = {view!r}")
    page.wait_for_selector(f"main[data-view='{view}']")
    assert page.title() != "owned"
    assert page.locator("main script, main img, main b, main u, main i").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    if view not in ("mind", "tables"):
        assert HOSTILE in (page.locator("main").text_content() or "")


def test_nothing_is_asked_of_the_network(files):
    for path in files.values():
        text = path.read_text(encoding="utf-8")
        addresses = set(re.findall(r"https?://[^\s\"'<>]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}
        assert "default-src 'none'" in text
