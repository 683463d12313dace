"""Settings that users bring, and starts that are far off (see also `hard_cases`)."""

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


CLIPPED = {
    "clip": lambda params: nn.utils.clip_grad_norm_(params, 0.1),
    "weight_decay": 1e-4,
}


@pytest.mark.parametrize("settings, gain", [({"parts": 4}, 10), (CLIPPED, 4)])
def test_micro_batches_clipping_and_decay_let_the_loss_fall(settings, gain):
    before, after, model = train(X, Y, Gaussian(), **settings)
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
