"""The rule around a direction: what it reports, its limits, what it refuses."""

import math

import pytest
import torch
from torch import nn

from adamqlr.torch import (
    QLR,
    SGDQLR,
    AdamQLR,
    Fisher,
    Gaussian,
    Hessian,
    Limit,
    Objective,
    Probe,
)
from torch_cases import MLP, torch_objective


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
        damping=1e-300,
        damping_floor=0.0,
        curvature=Fisher(),
    )
    assert optimiser.info.reduction_ratio == pytest.approx(1, abs=1e-9)
    assert optimiser.param_groups[0]["damping"] == 0.5e-300


def test_info_reports_what_the_step_did():
    objective = torch_objective("MLP, Poisson")
    before = objective().item()
    optimiser = AdamQLR(objective.model.parameters(), damping=0.1, curvature=Fisher())
    loss, info = optimiser.step(objective), optimiser.info
    assert info.loss == pytest.approx(before) == pytest.approx(loss.item())
    assert info.trial_loss == pytest.approx(objective().item())
    assert info.damping == 0.1 and info.predicted_change < 0
    ratio = (info.trial_loss - info.loss) / info.predicted_change
    assert info.reduction_ratio == pytest.approx(ratio)
    assert not info.rejected


def test_an_undamped_step_needs_no_trial():
    optimiser = after_one_step(linear_regression(), damping=None, curvature=Fisher())
    assert optimiser.param_groups[0]["damping"] is None
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
        after_one_step(linear_regression(), **settings).info.limit
        for settings in (
            {"kl_budget": 1e9, "max_step_size": 1e9},
            {"kl_budget": 1e-9, "max_step_size": 1e9},
            {"kl_budget": 1e9, "max_step_size": 1e-9},
        )
    ]
    assert decided == list(Limit)


def test_any_closure_will_do_for_the_hessian():
    point = torch.tensor([1.0, -1.0], requires_grad=True)
    rosenbrock = lambda: (1 - point[0]) ** 2 + 100 * (point[1] - point[0] ** 2) ** 2
    optimiser = AdamQLR([point], curvature=Hessian(), kl_budget=None)
    for _ in range(200):
        loss = optimiser.step(rosenbrock)
    assert loss < 0.1


@pytest.mark.parametrize(
    "settings, name",
    [
        ({"curvature": Probe()}, "Probe"),
        ({"curvature": Fisher()}, "Fisher"),
        ({"curvature": Hessian()}, "kl_budget"),
    ],
)
def test_a_plain_closure_is_refused_with_the_cure(settings, name):
    point = torch.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=rf"{name} needs .* step\(Objective\("):
        AdamQLR([point], **settings).step(lambda: point.square().sum())


class Poisoned(nn.Module):
    """A network that is not finite in one of the quantities a step looks at."""

    def __init__(self, where):
        super().__init__()
        self.where, self.inner = where, MLP(outputs=2)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        y = self.inner(x)
        if self.where == "gradient":
            return y + (self.inner.b1 - self.inner.b1.detach()).abs().sqrt().sum()
        if self.where == "trial loss" and self.calls > 1:
            return y + torch.nan
        return y


class Sharp(Gaussian):
    def fisher(self, outputs, tangent):
        return torch.full((len(outputs),), torch.inf)


def poisoned(where):
    x, y = torch.ones(4, 3).double(), torch.zeros(4, 2).double()
    likelihood = Sharp() if where == "curvature" else Gaussian()
    return Objective(
        Poisoned(where), likelihood, x, y + torch.inf if where == "loss" else y
    )


@pytest.mark.parametrize("where", ["loss", "gradient", "curvature", "trial loss"])
@pytest.mark.parametrize("curvature", [Fisher(), Probe()], ids=repr)
def test_nothing_that_is_not_finite_reaches_the_parameters(where, curvature):
    objective = poisoned(where)
    before = [param.clone() for param in objective.model.parameters()]
    optimiser = after_one_step(objective, curvature=curvature)
    after = list(objective.model.parameters())
    assert all(a.equal(b) for a, b in zip(before, after, strict=True))
    assert optimiser.info.rejected and optimiser.info.rejections == 1
    assert optimiser.info.step_size == 0
    group = optimiser.param_groups[0]
    assert group["damping"] == 2e-3 and group["rejections"] == 1
    for state in optimiser.state.values():
        assert state["exp_avg"].isfinite().all()


def test_dead_units_leave_parameters_and_damping():
    model = nn.Sequential(nn.Linear(3, 1), nn.ReLU())
    nn.init.constant_(model[0].weight, -1.0)
    nn.init.constant_(model[0].bias, -1.0)
    objective = Objective(model, Gaussian(), torch.ones(4, 3), torch.ones(4, 1))
    for curvature in (Fisher(), Probe()):
        optimiser = after_one_step(objective, curvature=curvature)
        assert (model[0].weight == -1).all()
        assert optimiser.param_groups[0]["damping"] == 1e-3
        assert not optimiser.info.rejected and optimiser.info.step_size == 0


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"damping": 0.0}, r"damping must lie in \(0, inf\), got 0.0"),
        ({"damping_decrease": 1.5}, r"damping_decrease must lie in \(0, 1\], got 1.5"),
        ({"damping_increase": 0.9}, r"damping_increase must lie in \[1, inf\)"),
        ({"damping_floor": -1.0}, r"damping_floor must lie in \[0, inf\), got -1.0"),
        ({"rescale": 0.0}, r"rescale must lie in \(0, inf\), got 0.0"),
        ({"max_step_size": -2.0}, r"max_step_size must lie in \(0, inf\), got -2.0"),
        ({"kl_budget": 0.0}, r"kl_budget must lie in \(0, inf\), got 0.0"),
        ({"kl_decay": 1.5}, r"kl_decay must lie in \[0, 1\], got 1.5"),
        ({"curvature_decay": -0.1}, r"curvature_decay must lie in \[0, 1\], got -0.1"),
        ({"ratio_every": 0}, r"ratio_every must lie in \[1, inf\), got 0"),
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
