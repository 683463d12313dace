"""Loops as people write them: a step is that of the objective, or it is refused."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from adamqlr.torch import AdamQLR, Bernoulli, Categorical, Objective

STEPS = 6
X = torch.randn(24, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = X[:, :3].argmax(1)
IMAGES = torch.randn(12, 3, 6, 6, generator=torch.Generator().manual_seed(1)).double()


def network(*inner):
    torch.manual_seed(1)
    inner = inner or (nn.Tanh(),)
    return nn.Sequential(nn.Linear(4, 8), *inner, nn.Linear(8, 3)).double()


def trained(model, optimiser, step):
    """The parameters after some steps, and what these measured."""
    optimiser.param_groups[0]["memory_reach"] = 0.01  # See test_torch_watch.
    torch.manual_seed(2)
    infos = []
    for number in range(STEPS):
        step(number)
        infos.append(tuple(optimiser.info))
    return [param.detach().clone() for param in model.parameters()], infos


def assert_steps_of_objectives(model, optimiser, step, make, objective):
    """A loop makes the steps that objectives of its batches make with another model."""
    params, infos = trained(model, optimiser, step)
    other = make()
    theirs = AdamQLR(other.parameters())
    expected = trained(other, theirs, lambda n: theirs.step(objective(other, n)))
    for a, b in zip(params, expected[0], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-9)
    for info, other_info in zip(infos, expected[1], strict=True):
        assert info == pytest.approx(other_info, rel=1e-5, abs=1e-12, nan_ok=True)


def watched(model, loss):
    return AdamQLR(model.parameters()).watch(model, loss)


def test_validation_in_another_mode_before_the_step():
    make = lambda: network(nn.Tanh(), nn.BatchNorm1d(8), nn.Dropout(0.5))
    model, criterion = make(), nn.CrossEntropyLoss()
    optimiser = watched(model, criterion)

    def step(number):
        model.train()
        optimiser.zero_grad()
        criterion(model(X), Y).backward()
        model.eval()  # to validate, and back to train() in the next round
        with torch.no_grad():
            model(X + 1)
        optimiser.step()
        assert not any(module.training for module in model.modules())

    objective = lambda other, _: Objective(other, Categorical(), X, Y)
    assert_steps_of_objectives(model, optimiser, step, make, objective)


def test_validation_of_the_average_before_the_step():
    model, criterion = network(), nn.CrossEntropyLoss()
    optimiser = watched(model, criterion)

    def step(number):
        optimiser.zero_grad()
        criterion(model(X), Y).backward()
        with torch.no_grad(), optimiser.averaged():
            model(X + 1)
        optimiser.step()

    objective = lambda other, _: Objective(other, Categorical(), X, Y)
    assert_steps_of_objectives(model, optimiser, step, network, objective)


def test_zero_grad_between_forward_and_backward_and_a_last_batch_that_is_smaller():
    model, criterion = network(), nn.CrossEntropyLoss()
    optimiser = watched(model, criterion)
    batches = [(X[:10], Y[:10]), (X[10:20], Y[10:20]), (X[20:], Y[20:])]

    def step(number):
        x, y = batches[number % 3]
        loss = criterion(model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    objective = lambda other, n: Objective(other, Categorical(), *batches[n % 3])
    assert_steps_of_objectives(model, optimiser, step, network, objective)


def test_images_in_channels_last_with_frozen_batch_norm():
    def make():
        torch.manual_seed(1)
        norm = nn.BatchNorm2d(5).requires_grad_(False).eval()
        layers = nn.Conv2d(3, 5, 3), norm, nn.ReLU(inplace=True)
        net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        net = nn.Sequential(*net, nn.Linear(5, 3)).double()
        return net.to(memory_format=torch.channels_last)

    model, criterion = make(), nn.CrossEntropyLoss()
    x, y = IMAGES.to(memory_format=torch.channels_last), torch.arange(12) % 3
    optimiser = watched(model, criterion)

    def step(number):
        optimiser.zero_grad()
        criterion(model(x), y).backward()
        optimiser.step()

    objective = lambda other, _: Objective(other, Categorical(), x, y)
    assert_steps_of_objectives(model, optimiser, step, make, objective)


class Reader(nn.Module):
    """Classes of sequences that differ in length."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.inner, self.out = nn.GRU(3, 5, batch_first=True), nn.Linear(5, 2)
        self.double()

    def forward(self, packed):
        hidden, lengths = pad_packed_sequence(self.inner(packed)[0], batch_first=True)
        return self.out(hidden[torch.arange(len(lengths)), lengths - 1])


def test_packed_sequences():
    model, criterion = Reader(), nn.CrossEntropyLoss()
    lengths, y = torch.tensor([6, 5, 3, 2, 2, 1]), torch.arange(6) % 2
    packed = pack_padded_sequence(IMAGES[:6, :, 0].mT, lengths, batch_first=True)
    optimiser = watched(model, criterion)

    def step(number):
        optimiser.zero_grad()
        criterion(model(packed), y).backward()
        optimiser.step()

    objective = lambda other, _: Objective(other, Categorical(), (packed,), y)
    assert_steps_of_objectives(model, optimiser, step, Reader, objective)


def test_a_gradient_by_the_inputs_is_no_part_of_the_step():
    """Adversarial examples in each of two micro-batches."""
    model, criterion = network(), nn.CrossEntropyLoss()
    optimiser = watched(model, criterion)
    halves = [(X[:12], Y[:12]), (X[12:], Y[12:])]

    def harder(net, x, y):
        x = x.clone().requires_grad_()
        (grad,) = torch.autograd.grad(functional.cross_entropy(net(x), y), x)
        return (x + 0.1 * grad.sign()).detach()

    def step(number):
        optimiser.zero_grad()
        for x, y in halves:
            criterion(model(harder(model, x, y)), y).backward()
        optimiser.step()

    def objective(other, _):
        x = torch.cat([harder(other, *half) for half in halves])
        return Objective(other, Categorical(), x, Y)

    assert_steps_of_objectives(model, optimiser, step, network, objective)


def test_adversaries_train_through_each_other():
    """A GAN: the maker's loss, another one, goes back through the watched judge."""
    torch.manual_seed(0)
    maker = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4)).double()
    judge = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    criterion = nn.BCEWithLogitsLoss()
    optimiser = watched(judge, criterion)
    other = torch.optim.Adam(maker.parameters(), 1e-3)
    real, ones = X, torch.ones(24, 1).double()
    losses = []
    for _ in range(STEPS):
        fake = maker(torch.randn(24, 2).double())
        optimiser.zero_grad()
        loss = criterion(judge(real), ones)
        loss = loss + criterion(judge(fake.detach()), 0 * ones)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        assert optimiser.info.loss == pytest.approx(loss.item() / 2)
        other.zero_grad()
        (-judge(fake).mean()).backward()
        other.step()
    assert losses[-1] < losses[0]


def test_an_exception_between_backward_and_step_is_survived():
    model, criterion = network(), nn.CrossEntropyLoss()
    optimiser = watched(model, criterion)

    def step(number):
        for x, y in ((2 * X, Y.flip(0)), (X, Y)):
            try:
                optimiser.zero_grad()
                criterion(model(x), y).backward()
                if x is not X:
                    raise MemoryError
                optimiser.step()
            except MemoryError:
                continue

    objective = lambda other, _: Objective(other, Categorical(), X, Y)
    assert_steps_of_objectives(model, optimiser, step, network, objective)


def test_layers_thawed_and_added_along_the_way():
    model, criterion = network(), nn.CrossEntropyLoss()
    model[0].requires_grad_(False)
    optimiser = AdamQLR(model[2].parameters()).watch(model, criterion)
    first, losses = model[0].weight.detach().clone(), []
    for number in range(9):
        if number == 3:
            model[0].requires_grad_(True)
            optimiser.add_param_group({"params": model[0].parameters()})
        if number == 6:
            model[2].requires_grad_(False)
        optimiser.zero_grad()
        loss = criterion(model(X), Y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
        assert model[0].weight.equal(first) == (number < 3)
    assert losses == sorted(losses, reverse=True)


def test_the_loss_may_be_logged_on_other_targets_of_detached_outputs():
    model, criterion = network(), nn.CrossEntropyLoss()
    optimiser = watched(model, criterion)

    def step(_):
        optimiser.zero_grad()
        outputs = model(X)
        loss = criterion(outputs, Y)
        criterion(outputs.detach(), Y.flip(0)).item()
        loss.backward()
        optimiser.step()

    objective = lambda other, _: Objective(other, Categorical(), X, Y)
    assert_steps_of_objectives(model, optimiser, step, network, objective)


def test_mixed_labels_are_refused_with_the_cure_which_works():
    model, criterion = network(), nn.CrossEntropyLoss()
    optimiser, x = watched(model, criterion), 0.7 * X + 0.3 * X.flip(0)
    outputs = model(x)
    loss = 0.7 * criterion(outputs, Y) + 0.3 * criterion(outputs, Y.flip(0))
    loss.backward()
    with pytest.raises(ValueError, match="give it the mixture, as probabilities"):
        optimiser.step()
    optimiser.zero_grad()
    classes = functional.one_hot(Y).double()
    mixture = criterion(model(x), 0.7 * classes + 0.3 * classes.flip(0))
    assert mixture.item() == pytest.approx(loss.item())
    mixture.backward()
    optimiser.step()


def test_a_term_of_weight_zero_counts_nothing():
    """As that of unlabelled data, whose weight grows in the course of training."""
    model, criterion = network(), nn.CrossEntropyLoss()
    optimiser = watched(model, criterion)

    def step(_):
        optimiser.zero_grad()
        loss = criterion(model(X[:8]), Y[:8])
        (loss + 0.0 * criterion(model(X[8:]), Y[8:])).backward()
        optimiser.step()

    objective = lambda other, _: Objective(other, Categorical(), X[:8], Y[:8])
    assert_steps_of_objectives(model, optimiser, step, network, objective)


class OfADict(nn.Module):
    """Takes its inputs out of a dict, where it puts what it makes of them."""

    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, batch):
        batch["x"] = self.net[1](self.net[0](batch["x"]))
        return self.net[2](batch.pop("x"))


def test_a_model_may_change_the_mapping_that_it_is_given():
    model, criterion = OfADict(), nn.CrossEntropyLoss()
    optimiser = watched(model, criterion)

    def step(_):
        optimiser.zero_grad()
        criterion(model({"x": X}), Y).backward()
        optimiser.step()

    objective = lambda other, _: Objective(other, Categorical(), X, Y)
    assert_steps_of_objectives(model, optimiser, step, network, objective)
    AdamQLR(model.parameters()).step(Objective(model, Categorical(), ({"x": X},), Y))


def test_a_batch_dropped_by_gradients_of_zero_is_forgotten():
    model, criterion = network(), nn.CrossEntropyLoss()
    optimiser = watched(model, criterion)

    def step(_):
        criterion(model(10 * X), Y).backward()  # thrown away
        model.zero_grad(set_to_none=False)
        criterion(model(X), Y).backward()
        optimiser.step()
        model.zero_grad(set_to_none=False)

    objective = lambda other, _: Objective(other, Categorical(), X, Y)
    assert_steps_of_objectives(model, optimiser, step, network, objective)


# Refusals.


@pytest.mark.parametrize("kind", ["watched", "objective"])
def test_parameters_whose_doing_no_look_would_see_are_refused(kind):
    encoder, decoder = network()[:2], network()[2]
    params = [*encoder.parameters(), *decoder.parameters()]
    optimiser = AdamQLR(params)
    if kind == "watched":
        optimiser.watch(decoder, Categorical())
    before = [param.detach().clone() for param in params]
    with pytest.raises(ValueError, match="2 of 4 parameters.* none of Linear's"):
        if kind == "objective":
            optimiser.step(Objective(decoder, Categorical(), encoder(X), Y))
        else:
            functional.cross_entropy(decoder(encoder(X)), Y).backward()
            optimiser.step()
    assert all(a.equal(b) for a, b in zip(params, before, strict=True))


def test_parameters_of_a_loss_are_refused_when_they_join():
    """A temperature that is learnt, outside of the model."""
    model, warmth = network(), nn.Parameter(torch.zeros(()).double())
    optimiser = watched(model, Categorical())
    functional.cross_entropy(model(X) * warmth.exp(), Y).backward()
    optimiser.step()
    optimiser.add_param_group({"params": [warmth]})
    optimiser.zero_grad()
    functional.cross_entropy(model(X) * warmth.exp(), Y).backward()
    with pytest.raises(ValueError, match="1 of 5 parameters"):
        optimiser.step()


@pytest.mark.parametrize("norm, kept", [(0.01, False), (1e9, True)])
def test_gradients_clipped_between_micro_batches_are_refused(norm, kept):
    model, criterion = network(), nn.CrossEntropyLoss()
    optimiser = watched(model, criterion)
    for x, y in zip(X.split(8), Y.split(8), strict=True):
        criterion(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), norm)
    if kept:
        optimiser.step()
        return
    with pytest.raises(RuntimeError, match=r"changed between two backward\(\)"):
        optimiser.step()
    assert optimiser.info is None


class Remembering(nn.Module):
    """Begins with the state that the last batch has left."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.cell, self.last = nn.GRUCell(4, 8), nn.Linear(8, 3)
        self.state = None

    def forward(self, x):
        self.state = self.cell(x, self.state)
        return self.last(self.state)


def test_a_model_that_keeps_its_state_to_itself_is_refused():
    model, criterion = Remembering().double(), nn.CrossEntropyLoss()
    optimiser = watched(model, criterion)
    criterion(model(X), Y).backward()
    with pytest.raises(RuntimeError, match="Remembering answers otherwise"):
        optimiser.step()
    assert optimiser.info is None


def test_a_step_of_another_optimiser_in_between_is_refused_and_after_it_is_not():
    model, criterion = network(), nn.CrossEntropyLoss()
    optimiser = AdamQLR(model[0].parameters()).watch(model, criterion)
    other = torch.optim.SGD(model[2].parameters(), 0.1)

    def step(*optimisers):
        model.zero_grad()
        criterion(model(X), Y).backward()
        for each in optimisers:
            each.step()

    step(optimiser, other)
    with pytest.raises(RuntimeError, match=r"call this step\(\) first"):
        step(other, optimiser)


def test_parameters_that_are_not_the_model_s_are_refused():
    model, criterion = network(), nn.CrossEntropyLoss()
    optimiser = watched(model, criterion)
    fast = {name: 1.1 * param for name, param in model.named_parameters()}
    criterion(torch.func.functional_call(model, fast, (X,)), Y).backward()
    with pytest.raises(RuntimeError, match="functional_call"):
        optimiser.step()


def test_inputs_changed_in_place_are_refused():
    model, criterion, x = network(), nn.CrossEntropyLoss(), X.clone()
    optimiser = watched(model, criterion)
    criterion(model(x), Y).backward()
    x.mul_(2)  # the next batch, in the same memory
    with pytest.raises(RuntimeError, match="inputs of Sequential were changed"):
        optimiser.step()


def test_a_model_that_changes_its_inputs_is_refused():
    model = nn.Sequential(nn.Softplus(), *network())
    model[0].forward = lambda x: x.add_(1)
    with pytest.raises(RuntimeError, match="inputs of Sequential were changed"):
        AdamQLR(model.parameters()).step(Objective(model, Categorical(), X.clone(), Y))


def test_two_passes_compared_with_each_other_are_refused():
    """Twins: the loss sees neither's outputs, but how near they are."""
    model, criterion = network(), nn.BCEWithLogitsLoss()
    optimiser = watched(model, criterion)
    apart = (model(X) - model(X.flip(0))).square().sum(1)
    criterion(apart, (Y == Y.flip(0)).double()).backward()
    with pytest.raises(ValueError, match="give step"):
        optimiser.step()
    assert optimiser.info is None


def test_the_step_before_a_backward_of_twice_the_graph_is_refused():
    """A penalty on the gradient by the inputs reaches one pass twice."""
    model, x = network(nn.Softplus()), X.clone().requires_grad_()
    optimiser = watched(model, Bernoulli())
    (grad,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    (grad.norm(dim=1) - 1).square().mean().backward()
    with pytest.raises((RuntimeError, ValueError)):
        optimiser.step()
