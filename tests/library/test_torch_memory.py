"""What the rule remembers of former batches: curvature, examples, targets' scale."""

import io
import math

import pytest
import torch
from torch import nn

from adamqlr.torch import (
    QLR,
    Accumulated,
    AdamQLR,
    Bernoulli,
    Categorical,
    Fisher,
    Gaussian,
    KLBudget,
    Limit,
    Objective,
    PaperAdamQLR,
    Poisson,
    Rule,
)
from adamqlr.torch.directions import adam
from torch_cases import MLP

GENERATOR = torch.Generator().manual_seed(0)
X = 3 + 2 * torch.randn(7, 8, 3, generator=GENERATOR).double()
Y = 5 + 4 * torch.randn(7, 8, 2, generator=GENERATOR).double()
MASKS = (torch.rand(7, 8, generator=GENERATOR) < 0.7).double()


def steps(likelihood, targets, masks=None, make=AdamQLR, cuts=(8,), **settings):
    """The optimiser after each of seven steps, on seven batches."""
    optimiser = make((model := MLP(outputs=2)).parameters(), **settings)
    for i, batch in enumerate(zip(X, targets, strict=True)):
        batch = [*batch, *([] if masks is None else [masks[i]])]
        pieces = zip(*[tensor.split(cuts) for tensor in batch], strict=True)
        parts = [Objective(model, likelihood, *piece) for piece in pieces]
        optimiser.step(Accumulated(parts))
        yield optimiser


@pytest.mark.parametrize("cuts", [(8,), (1, 5, 2)])
def test_the_targets_scale_is_that_of_all_examples_seen(cuts):
    for i, optimiser in enumerate(steps(Gaussian(), Y, MASKS, cuts=cuts)):
        rows = Y[: i + 1][MASKS[: i + 1] == 1]
        group = optimiser.param_groups[0]
        assert group["memory_examples"] == len(rows)
        assert group["memory_mean"] == pytest.approx(rows.mean().item())
        variance = rows.var(correction=0).item()
        assert group["memory_variance"] == pytest.approx(variance)


def square_norm_of_adams_direction(optimiser):
    """Of the last step, from Adam's moments after it."""
    states = optimiser.state.values()
    step = next(iter(states))["step"]
    return sum(
        (
            state["exp_avg"] / (1 - 0.9**step)
            / ((state["exp_avg_sq"] / (1 - 0.999**step)).sqrt() + 1e-8)
        ).square().sum().item()
        for state in states
    )  # fmt: skip


def plain_adam(params, **settings):
    return QLR(params, adam, betas=(0.9, 0.999), eps=1e-8, **settings)


@pytest.mark.parametrize(
    "likelihood, targets", [(Gaussian(), Y), (Categorical(), Y.argmax(2))]
)
def test_each_step_spends_what_the_examples_seen_allow(likelihood, targets):
    """Counted for a direction of the usual length, within tenfold of its own.

    What was seen by a network worse than a constant hardly counts, and it may go on.
    """
    rule = Rule(budget=KLBudget(1e-4, decay=0.25, power=0.5))
    settings = dict(make=plain_adam, curvature=Fisher(), rule=rule)
    seen, most = 0, 1.0 if likelihood.chance(Y[0]) is None else 0.1 * math.log(2)
    for optimiser in steps(likelihood, targets, **settings):
        group = optimiser.param_groups[0]
        ratio = max(float(group["memory_error"] / group["memory_variance"]), 1)
        seen += 8 / ratio**6
        own = square_norm_of_adams_direction(optimiser)
        mean = group["memory_square_norm"]
        usual = min(max(mean, own / 10), own * 10)
        budget = 1e-4 * 8**0.5 / max(seen, 8) ** 0.25
        allowed = max(budget, min(budget * ratio**6, most))
        assert optimiser.info.kl_divergence == pytest.approx(allowed * own / usual)
        assert optimiser.info.limit == Limit.KL_BUDGET


def test_the_running_mean_stands_for_the_curvature():
    decay, mean = 0.8, 0.0
    rule = Rule(budget=None, curvature_decay=decay, look_every=1)
    settings = dict(make=plain_adam, curvature=Fisher(), rule=rule)
    for optimiser in steps(Gaussian(), Y, **settings):
        info, square_norm = optimiser.info, square_norm_of_adams_direction(optimiser)
        steepness = info.curvature / square_norm
        mean = steepness if mean == 0 else decay * mean + (1 - decay) * steepness
        bend = mean * square_norm
        assert info.step_size == pytest.approx(info.slope / bend)
        remembered = optimiser.param_groups[0]["memory_curvature"]
        assert remembered == pytest.approx(mean)


def remembered(optimiser):
    group = optimiser.param_groups[0]
    names = ("curvature", "examples", "mean", "variance", "error")
    return {name: float(group[f"memory_{name}"]) for name in names}


def test_memory_outlives_a_checkpoint():
    *_, optimiser = steps(Gaussian(), Y)
    file = io.BytesIO()
    torch.save(optimiser.state_dict(), file)
    file.seek(0)
    again = AdamQLR(MLP(outputs=2).parameters())
    again.load_state_dict(torch.load(file, weights_only=True))
    assert remembered(again) == remembered(optimiser)
    assert len(set(remembered(again).values())) == 5  # all different, hence none empty


@pytest.mark.parametrize(
    "loss, likelihood, targets",
    [
        (nn.MSELoss(), Gaussian(), Y),
        (nn.BCEWithLogitsLoss(), Bernoulli(), (Y > 5).double()),
        (nn.PoissonNLLLoss(), Poisson(), Y.clamp(min=0).floor()),
        (nn.CrossEntropyLoss(), Categorical(), Y.argmax(2)),
    ],
)
def test_a_loss_of_torch_steps_as_its_likelihood(loss, likelihood, targets):
    # A share of the loss moves Adam's epsilon, which is all that sees its size.
    here, there = steps(loss, targets, eps=1e-30), steps(likelihood, targets, eps=1e-30)
    for with_loss, plain in zip(here, there, strict=True):
        assert with_loss.info.step_size == pytest.approx(plain.info.step_size, rel=1e-6)
        divergence = pytest.approx(plain.info.kl_divergence, rel=1e-6)
        assert with_loss.info.kl_divergence == divergence


class InUnits(nn.Module):
    """A network that predicts in other units."""

    def __init__(self, factor):
        super().__init__()
        self.net, self.factor = MLP(outputs=2), factor

    def forward(self, x):
        return self.factor * self.net(x)


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_units_of_the_targets_do_not_matter(factor):
    models = InUnits(1.0), InUnits(factor)
    optimisers = [
        AdamQLR(model.parameters(), eps=1e-30, curvature=Fisher()) for model in models
    ]
    for x, y in zip(X, Y, strict=True):
        for model, optimiser in zip(models, optimisers, strict=True):
            optimiser.step(Objective(model, Gaussian(), x, model.factor * y))
        here, there = [optimiser.info for optimiser in optimisers]
        assert here.kl_divergence == pytest.approx(there.kl_divergence, rel=1e-6)
        assert here.step_size == pytest.approx(there.step_size, rel=1e-6)


def test_the_paper_s_own_remembers_nothing():
    for optimiser in steps(Gaussian(), Y, make=PaperAdamQLR):
        assert set(remembered(optimiser).values()) == {0.0}
        assert optimiser.info.limit == Limit.MODEL
