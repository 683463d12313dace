"""What holds nothing is refused where it is handed over, with the cure."""

import pytest
import torch
from torch import nn

from adamqlr.torch import AdamQLR, Categorical, Objective
from torch_cases import batch, small_net


@pytest.mark.parametrize("weights", [None, torch.ones(0)])
def test_a_batch_of_no_examples_is_refused(weights):
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model.parameters())
    before = [param.clone() for param in model.parameters()]
    with pytest.raises(ValueError, match="the batch holds no example .*leave such"):
        optimiser.step(Objective(model, Categorical(), x[:0], y[:0], weights))
    assert all(map(torch.equal, before, model.parameters()))


def test_a_watched_batch_of_no_examples_is_refused():
    model, (x, y) = small_net(), batch()
    criterion = nn.CrossEntropyLoss()
    optimiser = AdamQLR(model.parameters()).watch(model, criterion)
    with pytest.raises(ValueError, match="the batch holds no example"):
        criterion(model(x[:0]), y[:0]).backward()
        optimiser.step()


def test_parameters_that_are_all_frozen_are_refused():
    model, (x, y) = small_net(), batch()
    optimiser = AdamQLR(model.requires_grad_(False).parameters())
    with pytest.raises(ValueError, match="no parameter of AdamQLR requires a gradient"):
        optimiser.step(Objective(model, Categorical(), x, y))


def test_parameters_that_are_all_empty_are_refused():
    model, (x, y) = nn.Linear(1, 3, bias=False), batch()
    model.weight = nn.Parameter(torch.zeros(3, 0))
    optimiser = AdamQLR(model.parameters())
    with pytest.raises(ValueError, match=r"hold no number, the first has shape \(3, 0"):
        optimiser.step(Objective(model, Categorical(), x[:, :0], y))


def test_parameters_that_take_their_shape_from_the_first_batch_are_trained():
    model, (x, y) = nn.LazyLinear(3), batch()
    optimiser = AdamQLR(model.parameters())
    optimiser.step(Objective(model, Categorical(), x, y))
    assert model.weight.shape == (3, 4)
