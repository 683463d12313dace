"""The rule around a direction: what it reports, its limits, what it refuses."""

import math

import pytest
import torch
from torch import nn

from adamqlr.torch import (
    PAPER,
    QLR,
    SGDQLR,
    AdamQLR,
    Categorical,
    Damping,
    Fisher,
    Gaussian,
    Hessian,
    KLBudget,
    Limit,
    Objective,
    PaperAdamQLR,
    Probe,
    Rule,
    Subsampled,
)
from torch_cases import batch, small_net, torch_objective


def linear_regression():
    """A quadratic loss, for which the Fisher model is exact."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1, dtype=torch.float64)
    x = torch.randn(16, 3, dtype=torch.float64)
    return Objective(model, Gaussian(), x, x.sum(1, keepdim=True) + 0.3)


def after_one_step(objective, make=AdamQLR, **settings):
    optimiser = make(objective.model.parameters(), **settings)
    optimiser.step(objective)
    return optimiser


@pytest.mark.parametrize("make", [AdamQLR, SGDQLR])
def test_ratio_is_one_on_an_undamped_quadratic(make):
    optimiser = after_one_step(
        linear_regression(),
        make,
        rule=Rule(Damping(1e-300, floor=0.0)),
        curvature=Fisher(),
    )
    assert optimiser.info.reduction_ratio == pytest.approx(1, abs=1e-9)
    assert optimiser.param_groups[0]["memory_damping"] == 0.5e-300


def test_info_reports_what_the_step_did():
    objective = torch_objective("MLP, Poisson")
    before = objective().item()
    optimiser = AdamQLR(
        objective.model.parameters(), rule=Rule(Damping(0.1)), curvature=Fisher()
    )
    loss, info = optimiser.step(objective), optimiser.info
    assert info.loss == pytest.approx(before) == pytest.approx(loss.item())
    assert info.trial_loss == pytest.approx(objective().item())
    assert info.damping == 0.1 and info.predicted_change < 0
    ratio = (info.trial_loss - info.loss) / info.predicted_change
    assert info.reduction_ratio == pytest.approx(ratio)
    assert not info.rejected


def test_an_undamped_step_needs_no_trial():
    optimiser = after_one_step(
        linear_regression(), rule=Rule(damping=None), curvature=Fisher()
    )
    assert optimiser.param_groups[0]["memory_damping"] == 0
    assert math.isnan(optimiser.info.trial_loss) and not optimiser.info.rejected


@pytest.mark.parametrize("scale", [-3.0, 0.01])
def test_rescaling_the_direction_leaves_the_update(scale):
    def steepest(factor):
        return lambda grads, params, states, group: [factor * g for g in grads]

    weights = [
        after_one_step(linear_regression(), QLR, direction=steepest(factor),
                       curvature=Fisher()).param_groups[0]["params"][0]
        for factor in (1.0, scale)
    ]  # fmt: skip
    torch.testing.assert_close(*weights)


def test_info_says_what_limits_the_step():
    decided = [
        after_one_step(
            linear_regression(),
            curvature=curvature,
            rule=Rule(budget=KLBudget(nats)),
        ).info.limit
        for curvature, nats in ((Fisher(), 1e9), (Fisher(), 1e-9), (Probe(), 1e9))
    ]
    assert decided == [Limit.MODEL, Limit.KL_BUDGET, Limit.LOOK]


def test_any_closure_will_do_for_the_hessian():
    point = torch.tensor([1.0, -1.0], requires_grad=True)
    rosenbrock = lambda: (1 - point[0]) ** 2 + 100 * (point[1] - point[0] ** 2) ** 2
    optimiser = AdamQLR([point], curvature=Hessian(), rule=PAPER)
    for _ in range(200):
        loss = optimiser.step(rosenbrock)
    assert loss < 0.1


@pytest.mark.parametrize(
    "settings, name",
    [
        ({"curvature": Probe(), "rule": PAPER}, "Probe"),
        ({"curvature": Fisher(), "rule": PAPER}, "Fisher"),
        ({"curvature": Hessian()}, "Rule.budget"),
    ],
)
def test_a_plain_closure_is_refused_with_the_cure(settings, name):
    point = torch.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=rf"{name} needs .* step\(Objective\("):
        AdamQLR([point], **settings).step(lambda: point.square().sum())


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"betas": (1.0, 0.9)}, r"betas\[0\] must lie in \[0, 1\), got 1.0"),
        ({"eps": 0.0}, r"eps must lie in \(0, inf\), got 0.0"),
        ({"lr": -1.0}, r"lr must lie in \[0, inf\), got -1.0"),
        ({"weight_decay": -1.0}, r"weight_decay must lie in \[0, inf\), got -1.0"),
    ],
)
def test_bad_settings_fail_at_once(settings, message):
    with pytest.raises(ValueError, match=message):
        AdamQLR(nn.Linear(1, 1).parameters(), **settings)


def test_a_missing_objective_is_named_with_the_cure():
    optimiser = AdamQLR(nn.Linear(1, 1).parameters())
    with pytest.raises(ValueError, match=r"step lacks closure: call step\(Objective"):
        optimiser.step()
    with pytest.raises(TypeError, match="closure must be an Objective"):
        optimiser.step(torch.zeros(()))
    with pytest.raises(ValueError, match="leave backward"):
        optimiser.step(lambda: torch.zeros(()))


def test_parameters_of_another_model_are_noticed():
    optimiser = AdamQLR(nn.Linear(1, 1).parameters())
    with pytest.raises(ValueError, match="no parameter of the optimiser has a grad"):
        optimiser.step(linear_regression())


def test_damping_follows_also_where_a_part_of_the_batch_is_looked_at():
    """The part's change of the loss is not the batch's: the step's own is evaluated."""
    torch.manual_seed(0)
    model, (x, y) = small_net(), batch()
    curvature = Subsampled(Probe(), 4, least=1)
    optimiser = PaperAdamQLR(model.parameters(), curvature=curvature)
    for _ in range(10):
        optimiser.step(Objective(model, Categorical(), x, y))
        assert math.isfinite(optimiser.info.reduction_ratio)
    assert optimiser.info.damping != 1e-3
