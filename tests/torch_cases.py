"""The same small networks in torch and in JAX, on shared numbers, in float64.

And a smaller one in float32, for all that needs no JAX beside it.
"""

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from adamqlr import jax as in_jax
from adamqlr import torch as in_torch

torch.set_num_threads(1)  # the tests' networks are too small to share


def _normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


class MLP(nn.Module):
    def __init__(self, inputs=3, hidden=4, outputs=3):
        super().__init__()
        self.w1 = nn.Parameter(torch.tensor(_normal(1, inputs, hidden)))
        self.b1 = nn.Parameter(torch.tensor(_normal(2, hidden) / 3))
        self.w2 = nn.Parameter(torch.tensor(_normal(3, hidden, outputs)))

    def forward(self, x):
        return torch.tanh(x @ self.w1 + self.b1) @ self.w2


def mlp(params, x):
    return jnp.tanh(x @ params["w1"] + params["b1"]) @ params["w2"]


class ConvNet(nn.Module):
    """A convolution and batch norm in training mode."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Parameter(torch.tensor(_normal(1, 4, 2, 3, 3) / 3))
        self.norm = nn.BatchNorm2d(4, dtype=torch.float64)
        self.out = nn.Parameter(torch.tensor(_normal(3, 4, 3)))

    def forward(self, x):
        y = self.norm(functional.conv2d(x, self.conv, padding=1))
        return torch.relu(y).mean((2, 3)) @ self.out


def conv_net(params, x):
    y = jax.lax.conv_general_dilated(x, params["conv"], (1, 1), "SAME")
    mean, var = y.mean((0, 2, 3), keepdims=True), y.var((0, 2, 3), keepdims=True)
    scale, shift = params["norm.weight"], params["norm.bias"]
    y = (y - mean) / jnp.sqrt(var + 1e-5)
    y = y * scale[:, None, None] + shift[:, None, None]
    return jax.nn.relu(y).mean((2, 3)) @ params["out"]


class Transformer(nn.Module):
    """One causal block with layer norm, GELU and torch's own attention."""

    def __init__(self, vocabulary=5, width=4, length=6):
        super().__init__()
        shapes = {
            "embed": (vocabulary, width),
            "position": (length, width),
            "qkv": (width, 3 * width),
            "mix": (width, width),
            "up": (width, 2 * width),
            "down": (2 * width, width),
            "out": (width, vocabulary),
        }
        for seed, (name, shape) in enumerate(shapes.items()):
            value = torch.tensor(_normal(seed, *shape) / 2)
            self.register_parameter(name, nn.Parameter(value))

    def forward(self, tokens):
        x = self.embed[tokens] + self.position
        q, k, v = (functional.layer_norm(x, x.shape[-1:]) @ self.qkv).chunk(3, -1)
        x = x + functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = functional.layer_norm(x, x.shape[-1:]) @ self.mix
        x = x + functional.gelu(y @ self.up) @ self.down
        return x @ self.out


def _layer_norm(x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def transformer(params, tokens):
    x = params["embed"][tokens] + params["position"]
    q, k, v = jnp.split(_layer_norm(x) @ params["qkv"], 3, -1)
    scores = jnp.einsum("btd,bsd->bts", q, k) / q.shape[-1] ** 0.5
    causal = jnp.tril(jnp.ones(scores.shape[1:], bool))
    x = x + jax.nn.softmax(jnp.where(causal, scores, -jnp.inf)) @ v
    y = _layer_norm(x) @ params["mix"]
    x = x + jax.nn.gelu(y @ params["up"], approximate=False) @ params["down"]
    return x @ params["out"]


CLASSES = np.arange(24) % 3
TOKENS = np.random.default_rng(9).integers(0, 5, (6, 7))
TOKEN_MASK = (np.arange(36).reshape(6, 6) % 7 != 0).astype(float)

# Torch model, JAX function, likelihood, inputs, targets, weights.
PAIRS = {
    "MLP, categorical": (MLP, mlp, "Categorical", _normal(0, 24, 3), CLASSES, None),
    "MLP, weighted Gaussian": (
        MLP, mlp, "Gaussian", _normal(0, 24, 3), _normal(7, 24, 3),
        np.linspace(0.1, 2, 24),
    ),
    "MLP, Bernoulli": (
        MLP, mlp, "Bernoulli", _normal(0, 24, 3), _normal(7, 24, 3) > 0, None,
    ),
    "MLP, Poisson": (
        MLP, mlp, "Poisson", _normal(0, 24, 3),
        np.arange(72.0).reshape(24, 3) % 4, None,
    ),
    "conv net with batch norm": (
        ConvNet, conv_net, "Categorical", _normal(0, 24, 2, 5, 5), CLASSES, None,
    ),
    "transformer, padded": (
        Transformer, transformer, "Categorical", TOKENS[:, :-1], TOKENS[:, 1:],
        TOKEN_MASK,
    ),
}  # fmt: skip


def torch_objective(case):
    model, _, likelihood, x, y, weights = PAIRS[case]
    as_tensor = lambda array: None if array is None else torch.tensor(array)
    return in_torch.Objective(
        model(), getattr(in_torch, likelihood)(), *map(as_tensor, (x, y, weights))
    )


def jax_objective(case):
    """With the parameters of the torch model; x64 must be enabled."""
    model, predict, likelihood, x, y, weights = PAIRS[case]
    params = {
        name: jnp.asarray(value.detach().numpy())
        for name, value in model().named_parameters()
    }
    as_array = lambda array: None if array is None else jnp.asarray(array)
    objective = in_jax.Objective(
        predict, getattr(in_jax, likelihood)(), *map(as_array, (x, y, weights))
    )
    return objective, params


def batch(classes=3, features=4, examples=16):
    torch.manual_seed(0)
    return torch.randn(examples, features), torch.arange(examples) % classes


def small_net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def trained(model, optimiser, x, y, steps=5, likelihood=None):
    """The losses of some steps, which must fall."""
    likelihood = likelihood or in_torch.Categorical()
    losses = [
        optimiser.step(in_torch.Objective(model, likelihood, x, y)).item()
        for _ in range(steps)
    ]
    assert losses[-1] < losses[0]
    return losses


def set_reach(optimiser, reach):
    """Have probes start from a distance at which differences keep their digits."""
    for group in optimiser.param_groups:
        group["memory_reach"] = reach


def accumulated_and_clipped(model, optimiser):
    """A step on a batch as loops make it, of a model that the optimiser watches."""
    criterion = nn.CrossEntropyLoss()
    optimiser.watch(model, criterion)

    def step(x, y):
        for part in range(2):
            (criterion(model(x[part::2]), y[part::2]) / 2).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimiser.step()
        optimiser.zero_grad()

    return step
