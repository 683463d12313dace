"""Small problems that the tests share: an objective and parameters, by name."""

import jax
import jax.numpy as jnp

from adamqlr.jax import Bernoulli, Categorical, Gaussian, Objective, Poisson

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
