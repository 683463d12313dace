"""Small tensors are joined, and nothing but the number of calls shows it."""

import copy

import pytest
import torch
from torch import nn

from adamqlr.torch import (
    ANY_LOSS,
    QLR,
    SGDQLR,
    AdamQLR,
    Average,
    Categorical,
    LossProbe,
    Objective,
    Rule,
)
from adamqlr.torch.directions import nesterov_adam, sgd
from torch_cases import accumulated_and_clipped, batch, set_reach


def network(dtype=torch.float64):
    """Small tensors, a large one and a lone number."""
    torch.manual_seed(1)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 1100), nn.Tanh(), nn.Linear(1100, 3))
            self.wide = nn.Linear(4, 3, bias=False)
            self.scale = nn.Parameter(torch.tensor(0.5))

        def forward(self, x):
            return self.body(x) + self.scale * self.wide(x)

    return Net().to(dtype)


def apart(direction):
    """The same direction, which the optimiser does not know to be elementwise."""
    return lambda *arguments: direction(*arguments)


def groups(model):
    return [
        {"params": [*model.body.parameters()], "weight_decay": 0.1},
        {"params": [*model.wide.parameters(), model.scale], "lr": 0.5, "l2": 0.01},
    ]


def steps(make, change=lambda model, optimiser, number: None, count=12):
    model, (x, y) = network(), batch()
    optimiser = make(groups(model))
    set_reach(optimiser, 0.01)
    for number in range(count):
        change(model, optimiser, number)
        optimiser.step(Objective(model, Categorical(), x.double(), y))
    return model, optimiser


MAKERS = {
    "adam": (AdamQLR, nesterov_adam, {"betas": (0.9, 0.99), "eps": 1e-8}),
    "sgd": (lambda params: SGDQLR(params, momentum=0.9), sgd, {"momentum": 0.9}),
}


def freeze_and_thaw(model, optimiser, number):
    model.wide.requires_grad_(number not in (2, 3))


def reset_a_state(model, optimiser, number):
    if number == 4:
        optimiser.state[model.wide.weight] = {}


def replace_a_moment(model, optimiser, number):
    if number == 4:
        state = optimiser.state[model.body[0].bias]
        for name, value in state.items():
            state[name] = value / 2 if isinstance(value, torch.Tensor) else value


def load_a_checkpoint(model, optimiser, number):
    if number == 4:
        optimiser.load_state_dict(copy.deepcopy(optimiser.state_dict()))


def look_at_the_average(model, optimiser, number):
    with optimiser.averaged():
        pass


CHANGES = [
    freeze_and_thaw,
    reset_a_state,
    replace_a_moment,
    load_a_checkpoint,
    look_at_the_average,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", MAKERS)
def test_joined_tensors_make_the_steps_of_each_alone(name, change, monkeypatch):
    monkeypatch.setattr("adamqlr.torch.bundles.PIECE", 500)  # The large one is cut.
    joined, direction, settings = MAKERS[name]
    alone = lambda params: QLR(params, apart(direction), **settings)
    (model, optimiser), (other, expected) = steps(joined, change), steps(alone, change)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
        mine, theirs = optimiser.state[a], expected.state[b]
        assert mine.keys() == theirs.keys()
        for key, value in mine.items():
            if isinstance(value, torch.Tensor):
                assert value.shape == a.shape
                torch.testing.assert_close(value, theirs[key], rtol=1e-9, atol=1e-11)
            else:
                assert value == theirs[key]


def test_gradients_that_somebody_may_look_at_stay_as_they_are():
    """Directions take the place of gradients only where the step took these itself."""
    model, (x, y) = network(), batch()
    seen: list[torch.Tensor] = []
    optimiser = AdamQLR(
        model.parameters(), clip=lambda params: seen.extend(p.grad for p in params)
    )
    optimiser.step(Objective(model, Categorical(), x.double(), y))
    clipped = network()
    nn.functional.cross_entropy(clipped(x.double()), y).backward()
    watched = network()
    optimiser = AdamQLR(watched.parameters()).watch(watched, Categorical())
    nn.functional.cross_entropy(watched(x.double()), y).backward()
    optimiser.step()
    for kept, expected, own in zip(
        seen, clipped.parameters(), watched.parameters(), strict=True
    ):
        torch.testing.assert_close(kept, expected.grad)
        torch.testing.assert_close(own.grad, expected.grad)


def test_most_calls_are_for_all_small_tensors_at_once():
    model = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(50)])

    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, x):
            return x * torch.stack(list(self.parts)).sum(0)

    net, calls = Sum(), []
    optimiser = AdamQLR(net.parameters(), rule=Rule(average=Average()))
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    objective = Objective(net, Categorical(), x, x.argmax(1))

    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            calls.append(str(function))
            return function(*args, **kwargs or {})

    for _ in range(10):  # the next one does not look
        optimiser.step(objective)
    with Count():
        optimiser.step(objective)
    arithmetic = ("lerp", "addcmul", "sqrt", "div", "dot")
    for name in arithmetic:
        assert sum(f"aten.{name}" in call for call in calls) < 30, name


ADAMS = [torch.optim.Adam, torch.optim.AdamW]


@pytest.mark.parametrize("kind", ADAMS)
def test_a_checkpoint_of_torch_s_adam_is_taken_over(kind):
    model, (x, y) = network(), batch()
    theirs = kind(model.parameters(), lr=1e-3, weight_decay=0.1)
    for _ in range(3):
        theirs.zero_grad()
        nn.functional.cross_entropy(model(x.double()), y).backward()
        theirs.step()
    ours = AdamQLR(model.parameters(), weight_decay=0.2)
    ours.load_state_dict(theirs.state_dict())
    assert ours.param_groups[0]["lr"] == 1 and ours.param_groups[0]["betas"]
    assert ours.param_groups[0]["weight_decay"] == 0.2
    for param in model.parameters():
        assert ours.state[param]["step"] == 3
        assert ours.state[param]["exp_avg"].equal(theirs.state[param]["exp_avg"])
    before = Objective(model, Categorical(), x.double(), y)().item()
    for _ in range(5):
        loss = ours.step(Objective(model, Categorical(), x.double(), y))
    assert loss < before
    assert ours.state[model.scale]["step"] == 8


def test_a_checkpoint_of_other_groups_has_torch_s_own_error():
    model = network()
    theirs = torch.optim.AdamW(model.parameters())
    ours = AdamQLR(groups(model))
    with pytest.raises(ValueError, match="loaded state dict"):
        ours.load_state_dict(theirs.state_dict())


def objective_step(model, x, y):
    optimiser = AdamQLR(model.parameters())
    return lambda: optimiser.step(Objective(model, Categorical(), x, y))


def loop_step(model, x, y):
    step = accumulated_and_clipped(model, AdamQLR(model.parameters()))
    return lambda: step(x, y)


def loss_step(model, x, y):
    optimiser = AdamQLR(model.parameters(), curvature=LossProbe(), rule=ANY_LOSS)
    return lambda: optimiser.step(lambda: nn.functional.cross_entropy(model(x), y))


@pytest.mark.parametrize("make", [objective_step, loop_step, loss_step])
def test_a_step_waits_for_the_device_once(make, monkeypatch):
    x, y = batch()
    step, waits = make(network(), x.double(), y), []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if "local_scalar_dense" in str(function):
                waits.append(str(function))
            return function(*args, **kwargs or {})

    plain = torch.Tensor.tolist
    count = lambda tensor: waits.append("tolist") or plain(tensor)
    monkeypatch.setattr(torch.Tensor, "tolist", count)
    # Of a CPU any number may be read at any time.
    monkeypatch.setattr("adamqlr.torch.scalars.is_at_hand", lambda device: False)
    for number in range(10):
        waits.clear()
        with Watch():
            step()
        # The first asks besides whether the model answers the same when called again.
        assert waits[number == 0 :] == ["tolist"]
