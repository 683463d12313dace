"""Every likelihood gives the same numbers in adamqlr.jax and adamqlr.torch."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from torch.utils._pytree import tree_map

from adamqlr import jax as in_jax
from adamqlr import torch as in_torch

RANDOM = np.random.default_rng(4)


def _normal(*shape):
    return RANDOM.normal(size=shape)


LABELS, SOFT = np.arange(10).reshape(2, 5) % 3, RANDOM.dirichlet([1, 1, 1], (2, 5))
WEIGHTS, BITS = [1.0, 3.0, 0.5], RANDOM.integers(0, 2, (2, 5, 3)).astype(float)
COUNTS = RANDOM.integers(0, 5, (2, 5, 3)).astype(float)
RATES = RANDOM.uniform(0.1, 3, (2, 5, 3))
LOGITS, REAL = _normal(2, 5, 3), 3 * _normal(2, 5, 3)


def _heads(library):
    likelihoods = {"a": library.Categorical(), "b": library.Gaussian()}
    return library.Heads(likelihoods, {"a": 2.0, "b": 0.1})


def _token_heads(library):
    likelihoods = library.Categorical(ignore_index=2), library.Poisson(example_axes=2)
    return library.Heads(likelihoods, example_axes=2)


# What makes it of a front end, its outputs and its targets.
CASES = {
    "Categorical": (lambda library: library.Categorical(), LOGITS, LABELS),
    "Categorical, soft": (lambda library: library.Categorical(), LOGITS, SOFT),
    "Categorical, all options": (
        lambda library: library.Categorical(0.2, WEIGHTS, 2), LOGITS, LABELS,
    ),
    "Categorical, soft, all options": (
        lambda library: library.Categorical(0.2, WEIGHTS), LOGITS, SOFT,
    ),
    "Gaussian": (lambda library: library.Gaussian(), LOGITS, REAL),
    "Gaussian, steps": (lambda library: library.Gaussian(example_axes=2), LOGITS, REAL),
    "predicted variance": (
        lambda library: library.HeteroscedasticGaussian(full=True),
        (LOGITS, RATES), REAL,
    ),
    "predicted variance, one for all, too small": (
        lambda library: library.HeteroscedasticGaussian(eps=1.0),
        (LOGITS, RATES[..., :1]), REAL,
    ),
    "Bernoulli": (lambda library: library.Bernoulli(), LOGITS, BITS),
    "Bernoulli, all options": (
        lambda library: library.Bernoulli(WEIGHTS, [2.0, 0.5, 1.0], example_axes=2),
        LOGITS, BITS,
    ),
    "Poisson": (lambda library: library.Poisson(), LOGITS, COUNTS),
    "Poisson, all options": (
        lambda library: library.Poisson(log_rate=False, full=True, eps=1e-6),
        RATES, COUNTS,
    ),
    "Laplace": (lambda library: library.Laplace(0.3), LOGITS, REAL),
    "Huber": (lambda library: library.Huber(0.7), LOGITS, REAL),
    "heads": (_heads, {"a": LOGITS, "b": LOGITS}, {"a": LABELS, "b": REAL}),
    "heads in order, of tokens": (_token_heads, (LOGITS, LOGITS), (LABELS, COUNTS)),
}  # fmt: skip


def _answers(likelihood, outputs, tangent, targets, mean, parts):
    """All that a likelihood can say; `parts` is how a front end hands over targets."""
    loss = likelihood.loss(outputs, targets)
    counts = likelihood.counts(targets)
    scale = likelihood.scale(loss.mean(), parts(targets), mean)
    least = likelihood.least(parts(targets), mean)
    return {
        "loss": loss,
        "fisher": likelihood.fisher(outputs, tangent),
        "weighted fisher": likelihood.weighted_fisher(outputs, tangent, targets),
        "counts": np.ones(loss.shape) if counts is None else counts,
        "scale": () if scale is None else list(scale),
        "least": np.nan if least is None else least,
    }


@pytest.mark.parametrize("case", CASES)
def test_both_front_ends_say_the_same(case, x64):
    make, outputs, targets = CASES[case]
    tangent = jax.tree.map(np.cos, outputs)
    here = _answers(
        make(in_jax),
        *jax.tree.map(jnp.asarray, (outputs, tangent, targets)),
        mean=jnp.mean,
        parts=lambda targets: targets,
    )
    there = _answers(
        make(in_torch),
        *tree_map(torch.tensor, (outputs, tangent, targets)),
        mean=lambda parts: torch.cat(parts).mean(),
        parts=lambda targets: [targets],
    )
    for name, expected in here.items():
        np.testing.assert_allclose(
            np.asarray(there[name]), np.asarray(expected), rtol=1e-7, err_msg=name
        )


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Parameter(torch.tensor(WEIGHTS_OF["body"]))
        self.a = torch.nn.Parameter(torch.tensor(WEIGHTS_OF["a"]))
        self.b = torch.nn.Parameter(torch.tensor(WEIGHTS_OF["b"]))

    def forward(self, x):
        hidden = torch.tanh(x @ self.body)
        return {"a": hidden @ self.a, "b": hidden @ self.b}


def two_heads(params, x):
    hidden = jnp.tanh(x @ params["body"])
    return {"a": hidden @ params["a"], "b": hidden @ params["b"]}


WEIGHTS_OF = {"body": _normal(3, 4), "a": _normal(4, 3), "b": _normal(4, 2)}
INPUTS, MASK = _normal(12, 3), np.arange(12) % 5 != 0
TARGETS = {"a": np.arange(12) % 3, "b": 2 * _normal(12, 2)}


@pytest.mark.parametrize("curvature", ["Probe", "Fisher"])
def test_steps_with_heads_weights_and_a_penalty_agree(curvature, x64):
    model = TwoHeads()
    objective = in_torch.Objective(
        model,
        _heads(in_torch),
        *tree_map(torch.tensor, (INPUTS, TARGETS, MASK)),
        penalty=lambda model: 0.1 * model.body.square().sum(),
    )
    optimiser = in_torch.AdamQLR(
        model.parameters(), curvature=getattr(in_torch, curvature)()
    )
    value_fn = in_jax.Objective(
        two_heads,
        _heads(in_jax),
        *jax.tree.map(jnp.asarray, (INPUTS, TARGETS, MASK)),
        penalty=lambda params: 0.1 * jnp.sum(jnp.square(params["body"])),
    )
    rule = in_jax.adam_qlr(curvature=getattr(in_jax, curvature)())
    params = jax.tree.map(jnp.asarray, WEIGHTS_OF)

    @jax.jit
    def step(params, state):
        value, grad = jax.value_and_grad(value_fn)(params)
        updates, state = rule.update(
            grad, state, params, value=value, grad=grad, value_fn=value_fn
        )
        return optax.apply_updates(params, updates), state

    state = rule.init(params)
    for _ in range(8):
        params, state = step(params, state)
        optimiser.step(objective)
        np.testing.assert_allclose(optimiser.info.loss, state.info.loss, rtol=1e-6)
    for name, value in model.named_parameters():
        # A probe's first look is at a distance at which half the digits are left.
        np.testing.assert_allclose(value.detach(), params[name], rtol=1e-5, atol=1e-6)
