"""What is not finite is refused: nothing of a bad batch stays."""

import copy
import math

import pytest
import torch
from torch import nn

from adamqlr.torch import (
    PAPER,
    SGDQLR,
    Accumulated,
    AdamQLR,
    Fisher,
    Gaussian,
    Objective,
    PaperAdamQLR,
    Probe,
    Rule,
)
from torch_cases import MLP, batch, set_reach, small_net, torch_objective


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


X, Y = torch.ones(4, 3).double(), torch.zeros(4, 2).double()
INFINITE = {"loss": torch.inf, "gradient": 0.0}


def remembered(optimiser):
    """All that a step may change: groups, moments."""
    return copy.deepcopy(optimiser.state_dict())


def assert_same(a, b):
    """To the last bit."""
    assert str(a) == str(b)
    for x, y in zip(
        torch.utils._pytree.tree_leaves(a),
        torch.utils._pytree.tree_leaves(b),
        strict=True,
    ):
        assert x.equal(y) if isinstance(x, torch.Tensor) else x == y


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("curvature", [Fisher(), Probe()], ids=repr)
def test_a_batch_that_is_not_finite_leaves_all_but_the_counts(where, curvature):
    model = Poisoned("nowhere")
    optimiser = AdamQLR(model.parameters(), curvature=curvature)
    for _ in range(3):
        optimiser.step(Objective(model, Gaussian(), X, Y))
    params = [param.detach().clone() for param in model.parameters()]
    before = remembered(optimiser)
    model.where = where
    optimiser.step(Objective(model, Gaussian(), X, Y + INFINITE[where]))
    assert all(a.equal(b) for a, b in zip(params, model.parameters(), strict=True))
    assert optimiser.info.rejected and optimiser.info.rejections == 1
    assert optimiser.info.step_size == 0
    after = remembered(optimiser)
    (group,) = before["param_groups"]
    group["memory_rejections"] = 1.0
    assert_same(after, before)


@pytest.mark.parametrize("where", ["curvature", "trial loss"])
@pytest.mark.parametrize("curvature", [Fisher(), Probe()], ids=repr)
def test_a_step_that_would_not_end_well_is_trusted_less(where, curvature):
    model = Poisoned(where)
    before = [param.detach().clone() for param in model.parameters()]
    optimiser = AdamQLR(model.parameters(), curvature=curvature, rule=PAPER)
    set_reach(optimiser, 1.0)
    optimiser.step(
        Objective(model, Sharp() if where == "curvature" else Gaussian(), X, Y)
    )
    assert all(a.equal(b) for a, b in zip(before, model.parameters(), strict=True))
    assert optimiser.info.rejected and optimiser.info.step_size == 0
    (group,) = optimiser.param_groups
    assert group["memory_damping"] == 2e-3 and group["memory_rejections"] == 1
    assert group["memory_reach"] == 0.25
    for state in optimiser.state.values():
        assert state["exp_avg"].isfinite().all()


def test_a_gradient_that_a_hook_made_finite_is_still_a_bad_batch():
    def clip(params):
        for param in params:
            param.grad.nan_to_num_(0.0, 0.0, 0.0)

    model = Poisoned("gradient")
    optimiser = AdamQLR(model.parameters(), clip=clip)
    optimiser.step(Objective(model, Gaussian(), X, Y))
    assert optimiser.info.rejected and not optimiser.state
    assert optimiser.param_groups[0]["memory_reach"] == 0


@pytest.mark.parametrize("rate", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("make", [AdamQLR, SGDQLR])
def test_training_goes_on_as_if_bad_batches_had_not_been(rate, make):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 8, 3, generator=generator).double()
    bad = torch.rand(60, generator=generator) < rate
    bad[0] = True
    y = x[..., :2].sin()
    x[bad, 3, 1] = torch.nan

    def after(rows):
        model = MLP(outputs=2)
        optimiser = make(model.parameters())
        for i in rows:
            optimiser.step(Objective(model, Gaussian(), x[i], y[i]))
        state = remembered(optimiser)
        (group,) = state["param_groups"]
        counts = int(group["memory_steps"]), int(group.pop("memory_rejections"))
        return list(model.parameters()), state, counts

    params, state, counts = after(range(60))
    expected, there, _ = after(bad.logical_not().nonzero().flatten())
    assert counts == (60 - bad.sum(), bad.sum())
    assert_same((params, state), (expected, there))


def test_a_bad_batch_leaves_the_buffers():
    objective = torch_objective("conv net with batch norm")
    model, x = objective.model, objective.inputs
    optimiser = AdamQLR(model.parameters())
    optimiser.step(objective)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    parts = [
        Objective(model, objective.likelihood, inputs, objective.targets)
        for inputs in (x, torch.where(x > 2, torch.nan, x))
    ]
    for bad in (parts[1], Accumulated(parts)):
        optimiser.step(bad)
        assert optimiser.info.rejected
        for name, buffer in model.named_buffers():
            assert buffer.equal(before[name]), name
    optimiser.step(objective)
    assert not optimiser.info.rejected
    assert model.norm.num_batches_tracked == 2


def test_steps_between_looks_wait_for_a_first_curvature():
    model = Poisoned("nowhere")
    optimiser = AdamQLR(model.parameters(), rule=Rule(look_every=9))
    looks = []
    for i in range(11):
        targets = Y + torch.inf if i == 0 else Y
        optimiser.step(Objective(model, Gaussian(), X, targets))
        looks.append(math.isfinite(optimiser.info.curvature))
    assert looks == [False, *[True] * 8, False, True]


@pytest.mark.parametrize("kind", [AdamQLR, PaperAdamQLR])
def test_batches_of_padding_alone_teach_nothing(kind):
    """A network is not taken for one that knows it all."""
    model, (x, y) = small_net(), batch()
    optimiser, padding = kind(model.parameters()), torch.full_like(y, -100)
    kept = lambda: copy.deepcopy((optimiser.state_dict(), model.state_dict()))
    for refused in range(1, 4):
        optimiser.step(Objective(model, nn.CrossEntropyLoss(), x, y))
        before = kept()
        optimiser.step(Objective(model, nn.CrossEntropyLoss(), x, padding))
        assert optimiser.info.rejected and optimiser.info.rejections == refused
        before[0]["param_groups"][0]["memory_rejections"] = float(refused)
        torch.testing.assert_close(kept(), before, rtol=0, atol=0)


def test_dead_units_leave_parameters_and_damping():
    model = nn.Sequential(nn.Linear(3, 1), nn.ReLU())
    nn.init.constant_(model[0].weight, -1.0)
    nn.init.constant_(model[0].bias, -1.0)
    objective = Objective(model, Gaussian(), torch.ones(4, 3), torch.ones(4, 1))
    for curvature in (Fisher(), Probe()):
        optimiser = AdamQLR(model.parameters(), curvature=curvature, rule=PAPER)
        optimiser.step(objective)
        assert (model[0].weight == -1).all()
        assert optimiser.param_groups[0]["memory_damping"] == 1e-3
        assert not optimiser.info.rejected and optimiser.info.step_size == 0


@pytest.mark.parametrize("named", [False, True])
def test_float16_parameters_are_refused(named):
    model = nn.Linear(2, 1).half()
    params = model.named_parameters() if named else model.parameters()
    with pytest.raises(ValueError, match="parameters in float16 cannot be trained"):
        AdamQLR(params)


def frozen():
    model = nn.Linear(2, 1).requires_grad_(False)
    AdamQLR(model.parameters()).step(
        Objective(model, Gaussian(), torch.ones(4, 2), torch.ones(4, 1))
    )


def frozen_and_watched():
    model, criterion = nn.Linear(2, 1).requires_grad_(False), nn.MSELoss()
    optimiser = AdamQLR(model.parameters()).watch(model, criterion)
    inputs = torch.ones(4, 2, requires_grad=True)
    criterion(model(inputs), torch.ones(4, 1)).backward()
    optimiser.step()


def empty():
    model = nn.Linear(2, 1)
    AdamQLR([{"params": []}]).step(
        Objective(model, Gaussian(), torch.ones(4, 2), torch.ones(4, 1))
    )


def another_model_s():
    model, criterion = nn.Linear(2, 1), nn.MSELoss()
    optimiser = AdamQLR(nn.Linear(2, 1).parameters()).watch(model, criterion)
    criterion(model(torch.ones(4, 2)), torch.ones(4, 1)).backward()
    optimiser.step()


@pytest.mark.parametrize("step", [frozen, frozen_and_watched, empty, another_model_s])
def test_a_step_of_nothing_says_what_is_missing(step):
    with pytest.raises(ValueError, match="no parameter of .* gradient.*requires_grad"):
        step()


def test_complex_parameters_are_refused():
    with pytest.raises(ValueError, match="must be real, got torch.complex64"):
        AdamQLR([nn.Parameter(torch.ones(2, dtype=torch.complex64))])


def test_a_step_among_cached_parametrisations_is_refused():
    model = nn.utils.parametrizations.orthogonal(nn.Linear(2, 2))
    objective = Objective(model, Gaussian(), torch.ones(4, 2), torch.ones(4, 2))
    optimiser = AdamQLR(model.parameters())
    with (
        nn.utils.parametrize.cached(),
        pytest.raises(RuntimeError, match=r"leave cached\(\) before step"),
    ):
        optimiser.step(objective)
    optimiser.step(objective)
    assert optimiser.info.step_size > 0
