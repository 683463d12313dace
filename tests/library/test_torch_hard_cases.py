"""Trouble that users bring along: the defaults train through it, or stand still."""

import pytest
import torch
from torch import nn

from adamqlr.torch import Accumulated, AdamQLR, Categorical, Gaussian, Objective
from torch_cases import MLP

EXAMPLES = 128


def network():
    return MLP(outputs=2).float()


def normal(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def teacher():
    net = network()
    for param in net.parameters():
        param.copy_(0.3 - param.flip(0))
    return net


X = normal(0, EXAMPLES, 3)
Y = teacher()(X).detach()
CLASSES = Y.argmax(1)
WRONG = torch.rand(EXAMPLES, generator=torch.Generator().manual_seed(2)) < 0.3
CAUCHY = normal(3, EXAMPLES, 2) / normal(4, EXAMPLES, 2)  # has no variance
FOUR = torch.arange(EXAMPLES) % 4
ONE = torch.zeros(EXAMPLES, dtype=torch.int64)


def train(x, y, likelihood, model=None, batch=16, steps=200, parts=1, **settings):
    """The loss of all data before and after training, and the model."""
    model = model or network()
    optimiser = AdamQLR(model.parameters(), **settings)
    whole = Objective(model, likelihood, x, y)
    before = whole().item()
    draw = torch.Generator().manual_seed(1)
    for _ in range(steps):
        rows = torch.randint(len(x), (batch,), generator=draw)
        optimiser.step(
            Accumulated(
                [Objective(model, likelihood, x[r], y[r]) for r in rows.chunk(parts)]
            )
        )
    return before, whole().item(), model


@pytest.mark.parametrize(
    "x, y, likelihood, gain, settings",
    [
        pytest.param(
            X, 1e-3 * Y, Gaussian(), 1000, {"steps": 300}, id="small units"
        ),
        pytest.param(X, Y, Gaussian(), 10, {}, id="units of one"),
        # Hidden units see the steps that outputs of a thousand need.
        pytest.param(X, 1e3 * Y, Gaussian(), 1.5, {}, id="large units"),
        pytest.param(X, Y + CAUCHY, Gaussian(), 1, {}, id="heavy tails"),
        pytest.param(X[FOUR], Y[FOUR], Gaussian(), 100, {}, id="four rows repeated"),
        pytest.param(X[ONE], Y[ONE], Gaussian(), 10, {}, id="one row, Gaussian"),
        pytest.param(
            X[ONE], CLASSES[ONE], Categorical(), 10, {}, id="one row, categorical"
        ),
        pytest.param(
            X, CLASSES, Categorical(), 4, {"batch": 1, "steps": 400}, id="batch of one"
        ),
        pytest.param(X, Y, Gaussian(), 10, {"parts": 4}, id="micro-batches"),
        pytest.param(
            X, Y, Gaussian(), 4,
            {"clip": lambda ps: nn.utils.clip_grad_norm_(ps, 0.1),
             "weight_decay": 1e-4},
            id="clipping and weight decay",
        ),
    ],
)  # fmt: skip
def test_the_loss_falls(x, y, likelihood, gain, settings):
    before, after, model = train(x, y, likelihood, **settings)
    assert after < before / gain
    assert all(param.isfinite().all() for param in model.parameters())


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_the_targets_unit_does_not_change_the_answer(unit):
    """A linear network from zero has no unit of its own, nor has the method."""
    model = nn.Linear(3, 2, bias=False)
    nn.init.zeros_(model.weight)
    optimiser = AdamQLR(model.parameters())
    for _ in range(150):
        optimiser.step(Objective(model, Gaussian(), X, unit * Y))
    best = unit * torch.linalg.lstsq(X, Y).solution.T
    torch.testing.assert_close(model.weight.data, best, rtol=0.02, atol=0.02 * unit)


def test_wrong_labels_do_no_harm():
    labels = torch.where(WRONG, 1, CLASSES)
    before, after, model = train(X, labels, Categorical())
    clean = [Objective(m, Categorical(), X, CLASSES)() for m in (network(), model)]
    assert after < before and clean[1] < clean[0] / 2


def enlarged(factor):
    model = network()
    with torch.no_grad():
        for param in model.parameters():
            param *= factor
    return model


@pytest.mark.parametrize(
    "likelihood, targets, factor",
    [(Gaussian(), Y, 100), (Categorical(), CLASSES, 10)],
)
def test_weights_that_start_far_too_large_come_back(likelihood, targets, factor):
    before, after, _ = train(X, targets, likelihood, enlarged(factor))
    assert after < before / 10


@pytest.mark.parametrize("factor", [100, 1000])
def test_a_softmax_that_is_sure_of_everything_comes_back(factor):
    """Where it is sure its Fisher information is zero, and where it is wrong too."""
    before, after, _ = train(X, CLASSES, Categorical(), enlarged(factor), steps=8)
    assert after < before


def test_a_frozen_part_stays_and_the_rest_learns():
    model = network()
    model.w1.requires_grad_(False)
    before, after, _ = train(X, Y, Gaussian(), model)
    assert after < before / 2 and model.w1.equal(network().w1)


class Dead(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3, 3))

    def forward(self, x):
        return torch.relu(x @ self.w - 100.0) @ self.w.T


def test_dead_units_leave_the_parameters_alone():
    model = Dead()
    optimiser = AdamQLR(model.parameters())
    for _ in range(3):
        optimiser.step(Objective(model, Gaussian(), X, X))
    assert not optimiser.info.rejected and model.w.equal(torch.ones(3, 3))
