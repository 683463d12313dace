"""Directions of other optimisers: theirs to the last digits, and so is their memory."""

import io

import pytest
import torch
from torch import nn

from adamqlr.torch import (
    QLR,
    SGDQLR,
    Fisher,
    Gaussian,
    Objective,
    Probe,
    direction_of,
)
from adamqlr.torch.directions import adam
from torch_cases import set_reach, torch_objective

MLP_CASE = "MLP, categorical"


def run(objective, optimiser, steps=20):
    """What each step did; probes start from a common reach."""
    if optimiser.param_groups[0]["memory_reach"] == 0:
        set_reach(optimiser, 0.01)
    infos = []
    for _ in range(steps):
        optimiser.step(objective)
        infos.append(optimiser.info)
    return infos


def around(objective, optimiser, curvature=None, **settings):
    direction = direction_of(optimiser, **settings)
    params = objective.model.parameters()
    return QLR(params, direction, curvature=curvature or Probe())


@pytest.mark.parametrize("curvature", [Probe(), Fisher()], ids=repr)
@pytest.mark.parametrize("name", [MLP_CASE, "conv net with batch norm"])
def test_around_adam_it_is_our_adam(name, curvature):
    ours, theirs = torch_objective(name), torch_objective(name)
    settings = {"betas": (0.9, 0.999), "eps": 1e-8}
    own = QLR(ours.model.parameters(), adam, curvature=curvature, **settings)
    ours_infos = run(ours, own)
    wrapper = around(theirs, torch.optim.Adam, curvature, lr=1.0)
    # A difference of parameters of size one keeps sixteen digits; a step loses some.
    for info, other in zip(ours_infos, run(theirs, wrapper), strict=True):
        assert info == pytest.approx(other, rel=1e-7, abs=1e-13, nan_ok=True)
    pairs = zip(ours.model.parameters(), theirs.model.parameters(), strict=True)
    for param, other in pairs:
        torch.testing.assert_close(param, other, rtol=1e-8, atol=1e-10)


def test_around_sgd_it_is_sgdqlr():
    ours, theirs = torch_objective(MLP_CASE), torch_objective(MLP_CASE)
    optimiser = SGDQLR(ours.model.parameters(), momentum=0.9, curvature=Fisher())
    wrapper = around(theirs, torch.optim.SGD, Fisher(), lr=1.0, momentum=0.9)
    infos = zip(run(ours, optimiser), run(theirs, wrapper), strict=True)
    for info, other in infos:
        assert info == pytest.approx(other, rel=1e-7, abs=1e-13, nan_ok=True)


def test_an_optimiser_that_changes_gradients_does_not_change_the_slope():
    """Nesterov's momentum by lists of tensors does: its first step is 1.9 g."""
    objective = torch_objective(MLP_CASE)
    params = list(objective.model.parameters())
    grads = torch.autograd.grad(objective(), params)
    settings = {"lr": 1.0, "momentum": 0.9, "nesterov": True, "foreach": True}
    wrapper = around(objective, torch.optim.SGD, **settings)
    wrapper.step(objective)
    square = sum(grad.square().sum().item() for grad in grads)
    assert wrapper.info.slope == pytest.approx(1.9 * square, rel=1e-9)


class Slowing(torch.optim.Optimizer):
    """Keeps its count in its group, as some learning-rate-free methods do."""

    def __init__(self, params):
        super().__init__(params, {"count": 0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["count"] += 1
            for param in group["params"]:
                param -= param.grad / group["count"]


@pytest.mark.parametrize(
    "make, settings",
    [
        (torch.optim.Adam, {"lr": 1.0, "amsgrad": True}),
        (torch.optim.AdamW, {"lr": 1.0, "weight_decay": 1e-4}),
        (torch.optim.NAdam, {"lr": 1.0}),
        (torch.optim.RAdam, {"lr": 1.0}),
        (torch.optim.Adamax, {"lr": 1.0}),
        (torch.optim.Adagrad, {"lr": 1.0}),
        (torch.optim.Adadelta, {"lr": 1.0}),
        (torch.optim.RMSprop, {"lr": 1.0, "centered": True}),
        (torch.optim.Rprop, {}),
        (torch.optim.ASGD, {}),
        pytest.param(
            getattr(torch.optim, "Adafactor", None),
            {"lr": 1.0},
            marks=pytest.mark.skipif(
                not hasattr(torch.optim, "Adafactor"), reason="came with torch 2.5"
            ),
        ),
        (Slowing, {}),
    ],
)
def test_every_optimiser_trains_and_goes_on_from_a_checkpoint(make, settings):
    whole, part = torch_objective(MLP_CASE), torch_objective(MLP_CASE)
    infos = run(whole, around(whole, make, **settings), 20)
    assert infos[-1].loss < infos[0].loss

    first = around(part, make, **settings)
    run(part, first, 8)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = around(part, make, **settings)
    second.load_state_dict(torch.load(file, weights_only=True))
    # Torch itself loads NAdam's product of momenta, a float32, as float64.
    assert run(part, second, 12)[-1] == pytest.approx(infos[-1], rel=1e-4, nan_ok=True)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="came with torch 2.9")
def test_muon_trains_matrices():
    torch.manual_seed(0)
    objective = torch_objective(MLP_CASE)
    objective.model.b1.requires_grad_(False)
    matrices = [p for p in objective.model.parameters() if p.ndim == 2]
    direction = direction_of(torch.optim.Muon, lr=1.0, weight_decay=0.0)
    infos = run(objective, QLR(matrices, direction))
    assert infos[-1].loss < 0.8 * infos[0].loss


def test_groups_and_frozen_parts():
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
    frozen = model[2].weight.requires_grad_(False).clone()
    groups = [{"params": model[0].parameters()},
              {"params": model[2].parameters(), "lr": 0.1}]  # fmt: skip
    optimiser = QLR(groups, direction_of(torch.optim.Adam, lr=1.0))
    infos = run(Objective(model, Gaussian(), x, x), optimiser)
    assert infos[-1].loss < infos[0].loss and model[2].weight.equal(frozen)
