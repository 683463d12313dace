"""What is drawn: that no loss, spike or cell is lost or invented, in figures too."""

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from qlrstudy.report.axes import view
from qlrstudy.report.charts import Axis, Chart, Series, muted, profile_chart
from qlrstudy.report.contents import contents
from qlrstudy.report.figures import svg
from qlrstudy.report.groups import groups
from qlrstudy.report.load import load
from qlrstudy.report.profiles import LEAST_LOSS, cells
from qlrstudy.report.scales import AxisScale, View, fitted, ticks
from qlrstudy.report.styles import style
from report_cases import small_study, write_run

_SVG = "{http://www.w3.org/2000/svg}"


def _chart(*curves, least=None, most=None) -> Chart:
    series = tuple(
        Series(name, name, style(name), {"steps": np.arange(len(y))}, {"loss": y})
        for name, y in zip("abcdef", map(np.array, curves), strict=False)
    )
    axes = Axis("steps", "steps"), Axis("loss", "loss", True, least, most)
    return Chart("name", "title", "card", "curves", axes[:1], axes[1:], series)


def _cuts(chart: Chart) -> int:
    return svg(chart).count('class="cut"')


def test_a_curve_that_leaves_the_picture_is_marked_wherever_it_does():
    assert _cuts(_chart([1.0, 0.5, 0.2], [1.0, 2.0, 0.1], most=4.0)) == 0
    assert _cuts(_chart([1.0, 9.0, 9.0, 0.2, 9.0, 0.1], most=4.0)) == 2
    # A loss of zero has no logarithm: it leaves below.
    assert _cuts(_chart([1.0, 0.1, 0.0], [1.0, 0.5, 0.4], least=LEAST_LOSS)) == 1


def test_a_loss_of_zero_keeps_the_axis_logarithmic(tmp_path):
    write_run(tmp_path, losses=(1.0, 0.1, 0.0), algorithm="kfac")
    write_run(tmp_path, losses=(1.0, 0.5, 0.4))
    found = contents(tmp_path)
    charts = {chart.name.rsplit("-", 1)[1]: chart for chart in found.charts}
    for kind in ("loss", "cost"):
        assert all(axis.log for axis in charts[kind].y)
        assert _cuts(charts[kind]) > 0
    assert found.ranking is not None
    first = found.ranking.ranks[0]
    assert first.algorithm == "kfac" and math.isfinite(first.ratio) and first.best


def test_ablations_are_drawn_where_something_is_left_out(tmp_path):
    names = lambda: {chart.name for chart in contents(tmp_path).charts}
    ablations = "uci-energy-paper-4000-epochs-ablations"
    for algorithm in ("adam", "adamqlr-tuned", "adamqlr-untuned"):
        write_run(tmp_path, algorithm=algorithm)
    assert ablations not in names()
    write_run(tmp_path, algorithm="adamqlr-undamped")
    assert ablations in names()


def _adam_and_one_more(store, batch: int) -> None:
    for rate in (0.1, 0.2, 0.3):
        setting = {"batch_size": batch, "learning_rate": rate}
        write_run(store, losses=(1, rate), hyperparameters=setting)
    write_run(store, algorithm="dog", hyperparameters={"batch_size": batch})


def test_a_profile_needs_more_than_one_cell(tmp_path):
    _adam_and_one_more(tmp_path, 50)
    assert len(cells(groups(load(tmp_path).runs))) == 1
    assert contents(tmp_path).profile is None
    _adam_and_one_more(tmp_path, 100)
    chart = profile_chart(cells(groups(load(tmp_path).runs)))
    assert chart is not None and len(chart.series) == 2
    assert set(np.unique(chart.series[0].y["steps"])) <= {0.0, 0.5, 1.0}


def test_every_figure_is_whole_xml_and_names_its_algorithms(tmp_path):
    small_study(tmp_path)
    hostile = "</svg><script>&\x00\ud800" + "x" * 300
    for seed in range(2):
        write_run(tmp_path, algorithm=hostile.replace("\ud800", ""), seed=seed)
    for chart in contents(tmp_path).charts:
        tree = ElementTree.fromstring(svg(chart).encode())
        assert tree.tag == f"{_SVG}svg" and not tree.findall(f".//{_SVG}script")
        said = {text.text for text in tree.iter(f"{_SVG}text")}
        for one in chart.series if chart.kind != "sweep" else ():
            assert one.title in said or one.title.startswith("</svg>")
        places = [path.get("d", "") for path in tree.iter(f"{_SVG}path")]
        assert not any("nan" in place or "inf" in place for place in places)


def test_a_sweep_has_a_curve_for_each_value_beside_its_ends(tmp_path):
    for rate in (0.01, 0.1, 3200.0):
        setting = {"batch_size": 50, "learning_rate": rate}
        write_run(tmp_path, losses=(1, rate, rate / 2), hyperparameters=setting)
    charts = {chart.name.split("-", 1)[0]: chart for chart in contents(tmp_path).charts}
    assert "sensitivity" in charts
    along = charts["trajectories"]
    assert [one.title for one in along.series] == ["0.01", "0.1", "3,200"]
    assert len({one.style.colour for one in along.series}) == 3
    np.testing.assert_allclose(along.series[0].y["training_loss"], [1, 0.01, 0.005])
    assert all(title in svg(along) for title in (">0.01<", ">0.1<", ">3,200<"))


def test_of_many_series_all_but_a_few_are_muted():
    chart = _chart(*[[1.0, 0.5]] * 6)
    assert not any(one.muted for one in muted(chart.series, {}))
    names = ["adam", "adamqlr", *"ihgfedcba"]
    many = [chart.series[0]._replace(algorithm=name) for name in names]
    badness = {name: float(place) for place, name in enumerate(names[2:])}
    found = muted(many, badness | {"adam": 50.0, "adamqlr": 60.0})
    loud = [one.algorithm for one in found if not one.muted]
    assert sorted(loud) == ["adam", "adamqlr", "g", "h", "i"]
    assert [one.algorithm for one in found[:5]] == loud  # drawn above the others


@pytest.mark.parametrize(
    ("low", "high", "log", "texts"),
    [
        (0.0, 10.0, False, ["0", "2", "4", "6", "8", "10"]),
        (0.0, 2500.0, False, ["0", "500", "1,000", "1,500", "2,000", "2,500"]),
        (0.01, 100.0, True, ["0.01", "0.1", "1", "10", "100"]),
        (1e-8, 1.0, True, ["10⁻⁸", "10⁻⁶", "10⁻⁴", "10⁻²", "10⁰"]),
        (0.3, 3.0, True, ["0.5", "1", "2"]),
    ],
)
def test_ticks_are_round_numbers(low, high, log, texts):
    found = ticks(low, high, log=log, count=5)
    assert [text for _, text in found] == texts
    scale = AxisScale(View(log, low, high), 0.0, 100.0)
    places = scale(np.array([value for value, _ in found]))
    assert np.all(np.diff(places) > 0)
    assert np.allclose(scale(np.array([low, high])), [0.0, 100.0])


def test_an_axis_shows_all_there_is_within_its_limits():
    values = np.array([np.nan, 0.0, 1e-9, 0.5, 2.0, 1e30])
    ends = fitted(values, log=True, least=1e-3, most=10.0, room=0.0)
    assert ends == pytest.approx((1e-3 / 1.02, 10.0 * 1.02))
    assert fitted(np.array([np.nan, -1.0]), log=True) is None
    low, high = fitted(np.array([3.0]), log=False) or (0, 0)
    assert low < 3.0 < high


def test_time_begins_at_the_edge_and_bars_have_room():
    chart = _chart([1.0, 0.5, 0.2])
    assert view(chart, chart.x[0], log=False) == (
        *(False, 0.0, 2.0),
        tuple((place / 2, f"{place / 2:g}") for place in range(5)),
    )
    bars = [one._replace(error={"loss": np.full(3, 0.1)}) for one in chart.series]
    points = chart._replace(kind="points", series=tuple(bars))
    shown = view(points, points.y[0], log=False)
    assert shown is not None and shown.low < 0.1 and shown.high > 1.1
    nothing = _chart([math.nan, math.nan])
    assert view(nothing, nothing.y[0], log=True) is None
    assert "nothing to draw" in svg(nothing)


def test_texts_of_marks_stay_apart():
    values = np.array([0.0, 1234567.0])
    chart = _chart([1.0, 0.5])
    wide = [one._replace(x={"steps": values}) for one in chart.series]
    three = tuple(Axis("loss", f"loss {number}") for number in range(3))
    drawn = svg(chart._replace(series=tuple(wide), y=three))
    words = re.findall(r'<text x="([\d.]+)" y="282.0"[^>]*>([^<]+)<', drawn)
    places = [(float(at), 3.1 * len(text)) for at, text in words]
    assert len(places) > 3
    for (at, half), (then, other) in itertools.pairwise(places):
        assert at + half < then - other
