"""Adam with one learning rate in all cells, as people use it who do not tune.

The tuned Adam has a rate of its own in each cell, chosen by running all of them. Here
each rate is kept throughout, and its final test losses are set against AdamQLR's, which
has no rate: the ratio of medians over seeds in each cell, and the geometric mean.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from qlrstudy.report.bars import Ratio, final_test_losses, mean_ratio
from qlrstudy.report.charts import Axis, Chart, Series
from qlrstudy.report.groups import Group, chosen
from qlrstudy.report.profiles import FEWEST_RATES, TUNED, Cell
from qlrstudy.report.styles import style

_OURS = "adamqlr"


class OneRate(NamedTuple):
    """Adam's learning rates, each with its losses over AdamQLR's in so many cells."""

    cells: int
    ratios: dict[float, Ratio]


def one_rate(found: Sequence[Group], cells: Sequence[Cell]) -> OneRate | None:
    """Each rate that was run in every cell that has AdamQLR too.

    Returns:
        `None` with fewer than two cells or three such rates.
    """
    both = [cell for cell in cells if _OURS in cell.methods]
    rates = [_rates(found, cell) for cell in both]
    if len(both) < 2:
        return None
    shared = sorted(set.intersection(*map(set, rates)))
    if len(shared) < FEWEST_RATES:
        return None
    ours = [final_test_losses(cell.methods[_OURS].group) for cell in both]
    theirs = {rate: [final_test_losses(own[rate]) for own in rates] for rate in shared}
    return OneRate(
        len(both),
        {
            rate: mean_ratio(list(zip(losses, ours, strict=True)))
            for rate, losses in theirs.items()
        },
    )


def one_rate_chart(found: OneRate) -> Chart:
    """A valley over the learning rates, and AdamQLR as a flat line."""
    title = "One learning rate of Adam throughout, against AdamQLR"
    rates = np.array(list(found.ratios))
    ratios = found.ratios.values()
    values = np.array([ratio.value for ratio in ratios])
    # An interval of 95 % has four deviations.
    errors = np.array([(ratio.high - ratio.low) / 4 for ratio in ratios])
    label = f"final test loss over AdamQLR's, {found.cells} cells"
    return Chart(
        "one-rate",
        title,
        title,
        "sweep",
        (Axis("rate", "learning rate", log=True),),
        (Axis("ratio", label, log=True),),
        tuple(
            Series(name, words, style(name), {"rate": rates}, {"ratio": own}, error)
            for name, words, own, error in (
                (TUNED, "Adam", values, {"ratio": errors}),
                (_OURS, "AdamQLR, which has none", np.ones(len(rates)), {}),
            )
        ),
    )


def _rates(found: Sequence[Group], cell: Cell) -> dict[float, Group]:
    """Adam's runs in a cell by their learning rate."""
    where = cell.place, cell.shape
    here = [g for g in found if g.algorithm == TUNED and (g.place, g.shape) == where]
    rates = {rate for g in here if (rate := dict(g.setting).get("learning_rate"))}
    return {
        rate: chosen([g for g in here if dict(g.setting).get("learning_rate") == rate])
        for rate in rates
    }
