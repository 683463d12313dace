"""Likelihoods, and the losses of torch.nn that stand for one."""

import numpy as np
import pytest
import torch
from torch import nn

from adamqlr.torch import (
    AdamQLR,
    Bernoulli,
    Categorical,
    Fisher,
    Gaussian,
    Objective,
    Poisson,
)
from torch_cases import MLP

LIKELIHOODS = [Categorical(), Gaussian(), Bernoulli(), Poisson()]
by_name = pytest.mark.parametrize(
    "likelihood", LIKELIHOODS, ids=lambda likelihood: type(likelihood).__name__
)


@by_name
def test_half_precision_outputs_give_single_precision_losses(likelihood):
    outputs = torch.ones(4, 3, dtype=torch.bfloat16)
    classes = likelihood is LIKELIHOODS[0]
    targets = torch.zeros(4, dtype=int) if classes else torch.ones(4, 3)
    assert likelihood.loss(outputs, targets).dtype == torch.float32
    assert likelihood.fisher(outputs, outputs).dtype == torch.float32


@by_name
def test_targets_of_another_shape_are_refused(likelihood):
    with pytest.raises(ValueError, match=r"targets must have shape .* got \(4, 1\)"):
        likelihood.loss(torch.ones(4, 3), torch.ones(4, 1))


def test_class_numbers_must_be_integers():
    with pytest.raises(TypeError, match="pass integers for class numbers"):
        Categorical().loss(torch.ones(4, 3), torch.ones(4))


def test_a_class_number_out_of_range_is_refused():
    with pytest.raises(IndexError, match="out of bounds"):
        Categorical().loss(torch.ones(4, 3), torch.full((4,), -100))


def test_integer_and_one_hot_labels_agree():
    logits, labels = torch.randn(2, 5, 3), torch.arange(10).reshape(2, 5) % 3
    one_hot = nn.functional.one_hot(labels, 3).float()
    torch.testing.assert_close(
        Categorical().loss(logits, labels), Categorical().loss(logits, one_hot)
    )


PIXELS = torch.arange(32).reshape(2, 4, 4) % 3
LOSSES = {
    "cross entropy": (nn.CrossEntropyLoss(), (8, 3), torch.arange(8) % 3),
    "cross entropy of pixels": (nn.CrossEntropyLoss(), (2, 3, 4, 4), PIXELS),
    "cross entropy, ignoring": (
        nn.CrossEntropyLoss(ignore_index=2), (2, 3, 4, 4), PIXELS,
    ),
    "cross entropy, soft": (
        nn.CrossEntropyLoss(), (8, 3, 2), torch.full((8, 3, 2), 1 / 3),
    ),
    "squared error": (nn.MSELoss(), (8, 3), torch.ones(8, 3)),
    "squared error, one axis": (nn.MSELoss(), (8,), torch.ones(8)),
    "binary": (nn.BCEWithLogitsLoss(), (8, 3), torch.ones(8, 3)),
    "Poisson": (nn.PoissonNLLLoss(), (8, 3), torch.ones(8, 3)),
}  # fmt: skip


class Table(nn.Module):
    """A model that is its outputs."""

    def __init__(self, shape):
        super().__init__()
        self.outputs = nn.Parameter(torch.randn(shape))

    def forward(self, x):
        return self.outputs + 0 * x


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_of_torch_keeps_its_value_and_its_curvature(name):
    loss, shape, targets = LOSSES[name]
    torch.manual_seed(0)
    model = Table(shape)
    optimiser = AdamQLR(model.parameters(), curvature=Fisher())
    before = model.outputs.detach().clone()
    expected = loss(before, targets)
    grad = torch.func.grad(loss)(before, targets)
    direction = grad / (grad.abs() + 1e-8)
    objective = Objective(model, loss, torch.zeros(shape), targets)
    torch.testing.assert_close(objective(), expected)
    torch.testing.assert_close(optimiser.step(objective), expected)
    # For these canonical links the Fisher matrix is the loss's own Hessian.
    along = lambda s: loss(before + s * direction, targets)
    slope = torch.func.grad(along)
    bend = torch.func.grad(slope)(torch.zeros(()))
    np.testing.assert_allclose(optimiser.info.curvature, bend, rtol=1e-4)


@pytest.mark.parametrize(
    "loss, option",
    [
        (nn.CrossEntropyLoss(weight=torch.ones(3)), "weight"),
        (nn.CrossEntropyLoss(label_smoothing=0.1), "label_smoothing=0.1"),
        (nn.CrossEntropyLoss(reduction="sum"), "reduction='sum'"),
        (nn.MSELoss(reduction="none"), "reduction='none'"),
        (nn.BCEWithLogitsLoss(pos_weight=torch.ones(3)), "pos_weight"),
        (nn.PoissonNLLLoss(log_input=False), "log_input=False"),
        (nn.PoissonNLLLoss(full=True), "full=True"),
    ],
)
def test_an_option_without_a_likelihood_is_named(loss, option):
    with pytest.raises(ValueError, match=f"with {option}.* is not supported"):
        Objective(MLP(), loss, torch.zeros(2, 3), torch.zeros(2, 3))


@pytest.mark.parametrize("loss", [nn.L1Loss(), "cross entropy"])
def test_an_unknown_loss_is_refused_with_the_cure(loss):
    with pytest.raises(TypeError, match="loss and fisher"):
        Objective(MLP(), loss, torch.zeros(2, 3), torch.zeros(2, 3))


def test_the_least_poisson_loss_is_that_of_the_counts_themselves():
    counts = torch.tensor([[1.0, 7.0], [2.0, 3.0]])
    best = Poisson().loss(counts.log(), counts)
    least = Poisson().least([counts], lambda parts: torch.cat(parts).mean())
    torch.testing.assert_close(least, best.mean())
    assert Poisson().least([torch.zeros(1, 2)], lambda parts: parts[0].mean()) == 0
