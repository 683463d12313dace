"""Training on the hard cases in torch."""

import torch
from torch import nn

from adamqlr import torch as library
from hard_cases import Outcome, Problem

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}


def network(problem: Problem) -> nn.Sequential:
    layers: list[nn.Module] = []
    for weights, biases in zip(problem.weights, problem.biases, strict=True):
        layer = nn.Linear(*weights.shape)
        layer.load_state_dict(
            {"weight": torch.tensor(weights.T), "bias": torch.tensor(biases)}
        )
        layers.append(layer)
        if problem.batch_norm:
            norm = nn.BatchNorm1d(len(biases), affine=False, track_running_stats=False)
            layers.append(norm)
        layers.append(ACTIVATIONS[problem.activation]())
    return nn.Sequential(*layers[: -2 if problem.batch_norm else -1])


def adam_qlr(params):
    return library.AdamQLR(params)


def adam(params):
    return torch.optim.Adam(params, 1e-3)


def train(problem: Problem, optimiser=adam_qlr) -> Outcome:
    """Train the problem's network."""
    model, likelihood = network(problem), getattr(library, problem.likelihood)()
    chosen = optimiser(model.parameters())
    x, y = torch.tensor(problem.x), torch.tensor(problem.y)
    y = y.long() if problem.likelihood == "Categorical" else y
    rows = torch.tensor(problem.rows)

    def whole():
        with torch.no_grad():
            return float(library.Objective(model, likelihood, x, y)())

    start, own = whole(), isinstance(chosen, library.QLR)
    for batch, bad in zip(rows, problem.not_finite.tolist(), strict=True):
        inputs = x[batch] * torch.nan if bad else x[batch]
        objective = library.Objective(model, likelihood, inputs, y[batch])
        if own:
            chosen.step(objective)
        elif not bad:  # Adam has no answer to these: it is spared them.
            chosen.zero_grad()
            objective().backward()
            chosen.step()
    refused = chosen.info.rejections if own else int(problem.not_finite.sum())
    steps, last = len(rows) - refused, whole()
    if not own:
        return Outcome(start, last, last, steps)
    with chosen.averaged():
        return Outcome(start, last, whole(), steps)
