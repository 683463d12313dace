"""Small problems that the tests share, and steps on them."""

import dataclasses

import jax
import jax.numpy as jnp

from adamqlr.jax import (
    PAPER,
    Bernoulli,
    Categorical,
    Fisher,
    Gaussian,
    Objective,
    Poisson,
    paper_adam_qlr,
    train_step,
)

BATCH, FEATURES, WIDTH = 6, 3, 2


def _normal(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape)


def mlp(params, x):
    return jnp.tanh(x @ params["w1"] + params["b1"]) @ params["w2"]


def mlp_params(inputs=FEATURES, hidden=3, outputs=WIDTH):
    return {
        "w1": _normal(1, inputs, hidden),
        "b1": _normal(2, hidden) / 3,
        "w2": _normal(3, hidden, outputs),
    }


def regression(likelihood, targets, weights=None):
    return (
        Objective(mlp, likelihood, _normal(0, BATCH, FEATURES), targets, weights),
        mlp_params(),
    )


def conv_with_batch_norm():
    def predict(params, x):
        y = jax.lax.conv_general_dilated(
            x,
            params["conv"],
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        mean, var = y.mean((0, 1, 2)), y.var((0, 1, 2))
        y = (y - mean) / jnp.sqrt(var + 1e-5) * params["scale"]
        return jnp.tanh(y).mean((1, 2)) @ params["out"]

    params = {
        "conv": _normal(1, 3, 3, 1, 2) / 3,
        "scale": 1 + _normal(2, 2) / 10,
        "out": _normal(3, 2, 3),
    }
    labels = jnp.arange(BATCH) % 3
    return Objective(predict, Categorical(), _normal(0, BATCH, 4, 4, 1), labels), params


def attention_over_sequences():
    """Tokens as examples, with one weight for each token (padding at the end)."""

    def predict(params, tokens):
        x = params["embed"][tokens]
        q, k, v = (x @ params[name] for name in ("q", "k", "v"))
        scores = jnp.einsum("btd,bsd->bts", q, k)
        causal = jnp.tril(jnp.ones(scores.shape[1:], bool))
        mixed = jax.nn.softmax(jnp.where(causal, scores, -1e9)) @ v
        return (x + mixed) @ params["out"]

    names = {"embed": (4, 2), "q": (2, 2), "k": (2, 2), "v": (2, 2), "out": (2, 4)}
    params = {name: _normal(i, *shape) for i, (name, shape) in enumerate(names.items())}
    tokens = jax.random.randint(jax.random.key(9), (3, 5), 0, 4)
    mask = jnp.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]])
    return (
        Objective(predict, Categorical(), tokens[:, :-1], tokens[:, 1:], mask),
        params,
    )


LABELS = jnp.arange(BATCH) % WIDTH
BITS = (jnp.arange(BATCH * WIDTH) % 3 == 0).reshape(BATCH, WIDTH).astype(float)
COUNTS = (jnp.arange(BATCH * WIDTH) % 4).reshape(BATCH, WIDTH).astype(float)
MASK = jnp.array([1, 0, 1, 1, 0, 1])

# Built when asked for, so that they come in the float type that is then in force.
CASES = {
    "categorical": lambda: regression(Categorical(), LABELS),
    "categorical, one-hot": lambda: regression(
        Categorical(), jax.nn.one_hot(LABELS, WIDTH)
    ),
    "categorical, masked": lambda: regression(Categorical(), LABELS, MASK),
    "gaussian": lambda: regression(Gaussian(), _normal(7, BATCH, WIDTH)),
    "gaussian, weighted": lambda: regression(
        Gaussian(), _normal(7, BATCH, WIDTH), jnp.linspace(0.1, 2, BATCH)
    ),
    "bernoulli": lambda: regression(Bernoulli(), BITS),
    "bernoulli, masked": lambda: regression(Bernoulli(), BITS, MASK),
    "poisson": lambda: regression(Poisson(), COUNTS),
    "convolution, batch norm": conv_with_batch_norm,
    "attention, padded sequences": attention_over_sequences,
}


def double(case):
    """A case in float64, which must be enabled."""
    objective, params = CASES[case]()
    return objective, jax.tree.map(lambda leaf: leaf.astype("float64"), params)


def rosenbrock(params):
    x, y = params
    return (1 - x) ** 2 + 100 * (y - x**2) ** 2


def linear_regression(weights=None):
    """A quadratic loss, for which the Fisher model is exact."""
    x = _normal(0, 16, 3)
    y = x @ jnp.array([[1.0], [-2.0], [0.5]]) + 0.3
    objective = Objective(lambda w, x: x @ w, Gaussian(), x, y, weights)
    return objective, jnp.zeros((3, 1))


def plain(optimiser=paper_adam_qlr, *base, curvature=Fisher(), **settings):  # noqa: B008
    """The rule by itself: exact curvature of each batch alone, and no budget."""
    rule = dataclasses.replace(PAPER, **settings)
    return optimiser(*base, curvature=curvature, rule=rule)


def one_step(optimiser, objective, params):
    """The parameters and the state after a first step."""
    step = jax.jit(lambda *carry: train_step(optimiser, objective, *carry)[:2])
    return step(params, optimiser.init(params))


def many_steps(optimiser, objective, params, steps):
    """The last parameters, and the state after each step."""

    def body(carry, _):
        params, state, *_ = train_step(optimiser, objective, *carry)
        return (params, state), state

    start = (params, optimiser.init(params))
    scan = jax.jit(lambda start: jax.lax.scan(body, start, length=steps))
    (params, _), states = scan(start)
    return params, states
