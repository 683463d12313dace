"""A trained network that goes on, gets a new head or an adapter, gets no worse first.

Adam at 1e-4, the cautious choice, is beside.
"""

import copy
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch import nn

from adamqlr import jax as in_jax
from adamqlr.torch import AdamQLR, Categorical, KLBudget, Objective, Rule

CLASSES, STEPS, BATCH = 5, 60, 32


def task(seed):
    """Noisy labels: the tasks share their features and differ in the last map."""
    draw = np.random.default_rng(0)
    x, features = draw.normal(size=(1000, 10)), draw.normal(size=(10, 6))
    draw = np.random.default_rng(seed)
    scores = 3 * np.tanh(x @ features) @ draw.normal(size=(6, CLASSES))
    labels = np.argmax(scores + draw.gumbel(size=scores.shape), axis=1)
    return x.astype(np.float32), labels


OLD, NEW = task(1), task(2)
ROWS = np.random.default_rng(3).integers(0, len(OLD[0]), (STEPS, BATCH))


def train_torch(model, make, data, rows=ROWS):
    """The optimiser, and the losses of all data before each step and at the end."""
    x, y = map(torch.tensor, data)
    optimiser = make([p for p in model.parameters() if p.requires_grad])
    whole, losses = Objective(model, Categorical(), x, y), []
    for batch in rows:
        losses.append(whole().item())
        objective = Objective(model, Categorical(), x[batch], y[batch])
        if isinstance(optimiser, AdamQLR):
            optimiser.step(objective)
        else:
            optimiser.zero_grad()
            objective().backward()
            optimiser.step()
    return optimiser, [*losses, whole().item()]


def cautious(params):
    return torch.optim.Adam(params, 1e-4)


@functools.cache
def trained():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 5)
    )
    rows = np.random.default_rng(4).integers(0, len(OLD[0]), (600, BATCH))
    return model, train_torch(model, AdamQLR, OLD, rows)[0]


class LowRank(nn.Module):
    """A frozen layer and what is learnt on top of it, zero at first."""

    def __init__(self, layer, rank=4):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def with_new_head():
    model = copy.deepcopy(trained()[0])
    torch.manual_seed(1)
    model[4] = nn.Linear(32, CLASSES)
    return model


def with_adapters():
    model = copy.deepcopy(trained()[0])
    torch.manual_seed(1)
    for number in (0, 2, 4):
        model[number] = LowRank(model[number])
    return model


@pytest.mark.parametrize("make", [with_new_head, with_adapters])
def test_torch_takes_a_new_head_or_adapters_further_and_never_back(make):
    _, ours = train_torch(make(), AdamQLR, NEW)
    _, adam = train_torch(make(), cautious, NEW)
    assert max(ours) <= 1.01 * max(adam) and ours[-1] < adam[-1]


def test_torch_goes_on_from_a_checkpoint_as_if_it_had_not_stopped():
    """On its own task, with the optimiser's state: the average gets no worse.

    Nor than what Adam at 1e-4 makes of the same weights.
    """
    model, optimiser = map(copy.deepcopy, trained())
    again = AdamQLR(model.parameters())
    again.load_state_dict(optimiser.state_dict())
    x, y = map(torch.tensor, OLD)
    whole, losses = Objective(model, Categorical(), x, y), []
    for batch in ROWS:
        with again.averaged():
            losses.append(whole().item())
        again.step(Objective(model, Categorical(), x[batch], y[batch]))
    _, adam = train_torch(copy.deepcopy(trained()[0]), cautious, OLD)
    assert max(losses) < 1.02 * losses[0] and max(losses) <= 1.02 * max(adam)


@pytest.mark.parametrize("batch", [16, 64, 256])
@pytest.mark.parametrize("seen", [None, 600 * BATCH])
def test_torch_goes_on_with_a_new_optimiser(seen, batch):
    """On its own task, told what was seen or not; Adam at 1e-4 hardly moves."""
    rows = np.random.default_rng(5).integers(0, len(OLD[0]), (STEPS, batch))
    rule = Rule(budget=KLBudget(seen=seen))
    ours = copy.deepcopy(trained()[0])
    _, ours = train_torch(ours, lambda params: AdamQLR(params, rule=rule), OLD, rows)
    _, adam = train_torch(copy.deepcopy(trained()[0]), cautious, OLD, rows)
    assert max(ours) <= 1.02 * max(adam)


def network(params, frozen, x):
    """Two layers, each a frozen map, a free one, or one and a free one of low rank."""
    for name in ("body", "head"):
        layer = frozen[name] + params[name] if name in params else frozen[name]
        if f"{name} up" in params:
            layer = layer + params[f"{name} down"] @ params[f"{name} up"]
        x = x @ layer if name == "head" else jax.nn.relu(x @ layer)
    return x


NOTHING = {"body": jnp.zeros((10, 32)), "head": jnp.zeros((32, CLASSES))}
ADAM, OURS = optax.adam(1e-4), {}


def optimiser_of(budget):
    """Ours, with settings of its budget; Adam at 1e-4 for `None`."""
    if budget is None:
        return ADAM
    return in_jax.adam_qlr(rule=Rule(budget=KLBudget(**budget)))


# One program for all tasks whose parameters have the same shapes.
@jax.jit
def steps_in_jax(params, state, frozen, data, rows, budget):
    x, y = data
    predict = lambda params, x: network(params, frozen, x)
    whole = in_jax.Objective(predict, in_jax.Categorical(), x, y)

    def step(carry, batch):
        objective = in_jax.Objective(predict, in_jax.Categorical(), x[batch], y[batch])
        params, state, *_ = in_jax.train_step(optimiser_of(budget), objective, *carry)
        return (params, state), whole(params)

    carry, losses = jax.lax.scan(step, (params, state), rows)
    return carry, jnp.concatenate([whole(params)[None], losses])


def train_jax(params, data, rows=ROWS, *, frozen=NOTHING, budget=OURS):
    """The parameters, and the losses of all data before each step and at the end."""
    state, losses = optimiser_of(budget).init(params), []
    for part in np.split(rows, len(rows) // STEPS):
        (params, state), found = steps_in_jax(params, state, frozen, data, part, budget)
        losses += found.tolist()
    return params, losses


def normal(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape) / shape[0] ** 0.5


@functools.cache
def trained_in_jax():
    params = {"body": normal(0, 10, 32), "head": normal(1, 32, CLASSES)}
    rows = np.random.default_rng(4).integers(0, len(OLD[0]), (600, BATCH))
    return train_jax(params, OLD, rows)[0]


def test_jax_takes_a_new_head_further_and_never_back():
    params = trained_in_jax() | {"head": normal(2, 32, CLASSES)}
    _, ours = train_jax(params, NEW)
    _, adam = train_jax(params, NEW, budget=None)
    assert max(ours) <= 1.01 * max(adam) and ours[-1] < adam[-1]


@pytest.mark.parametrize("budget", [OURS, {"seen": 600.0 * BATCH}])
def test_jax_goes_on_with_a_new_optimiser(budget):
    _, ours = train_jax(trained_in_jax(), OLD, budget=budget)
    _, adam = train_jax(trained_in_jax(), OLD, budget=None)
    assert max(ours) <= 1.02 * max(adam)


def test_jax_takes_adapters_further_and_never_back():
    frozen, rank = trained_in_jax(), 4
    params = {
        f"{name} {part}": value
        for seed, (name, layer) in enumerate(frozen.items())
        for part, value in [
            ("down", normal(seed, len(layer), rank)),
            ("up", jnp.zeros((rank, layer.shape[1]))),
        ]
    }
    _, ours = train_jax(params, NEW, frozen=frozen)
    _, adam = train_jax(params, NEW, frozen=frozen, budget=None)
    assert max(ours) <= 1.01 * max(adam) and ours[-1] < adam[-1]
