"""The README's picture: final loss against Adam's learning rate, and AdamQLR's.

    python website/learning_rates.py [--output docs/images/learning-rates.svg]

A network on scikit-learn's digits, at two batch sizes: Adam with nine constant rates,
and AdamQLR with its defaults, read at the average of its iterates. Lines are medians of
nine seeds, bands their middle half. The test loss is shown, after as many steps for
all. Takes some minutes on two cores, and prints the numbers.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import optax
from sklearn.datasets import load_digits

from adamqlr.jax import Categorical, Objective, adam_qlr, evaluation_params, train_step

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402 - after the choice of what draws

RATES = np.geomspace(1e-4, 1.0, 9)
STEPS = {8: 4000, 256: 400}
SEEDS, TEST, WIDTHS = 9, 397, (64, 64, 64, 10)
BLUE, ORANGE = "#3b6fb6", "#d9730d"


def predict(params, x):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def initial(key):
    shapes = zip(WIDTHS[:-1], WIDTHS[1:], strict=True)
    return [
        {"w": jax.random.normal(k, s) * (2 / s[0]) ** 0.5, "b": jnp.zeros(s[1])}
        for k, s in zip(jax.random.split(key, len(WIDTHS) - 1), shapes, strict=True)
    ]


def final_loss(rate, seed, batch, data):
    """The test loss at the end; a rate of `None` is AdamQLR."""
    x, y = data
    optimiser = adam_qlr() if rate is None else optax.adam(rate)
    start, order = jax.random.split(jax.random.key(seed))
    split = jax.random.permutation(jax.random.key(1000 + seed), len(x))
    train, test = split[TEST:], split[:TEST]

    def step(carry, key):
        params, state = carry
        rows = jax.random.choice(key, train, (batch,), replace=False)
        objective = Objective(predict, Categorical(), x[rows], y[rows])
        params, state, *_ = train_step(optimiser, objective, params, state)
        return (params, state), None

    params = initial(start)
    keys = jax.random.split(order, STEPS[batch])
    (params, state), _ = jax.lax.scan(step, (params, optimiser.init(params)), keys)
    if rate is None:
        params = evaluation_params(state, params)
    return Objective(predict, Categorical(), x[test], y[test])(params)


def measure(batch, data):
    seeds = jnp.arange(SEEDS)
    adam = jax.vmap(lambda rate, seed: final_loss(rate, seed, batch, data), (None, 0))
    adam = jax.jit(adam)
    own = jax.jit(jax.vmap(lambda seed: final_loss(None, seed, batch, data)))
    return np.array([adam(rate, seeds) for rate in RATES]), np.array(own(seeds))


def draw(axes, batch, adam, own):
    low, middle, high = np.nanquantile(adam, [0.25, 0.5, 0.75], axis=1)
    axes.fill_between(RATES, low, high, color=BLUE, alpha=0.2, lw=0)
    axes.plot(RATES, middle, "o-", color=BLUE, lw=2, ms=4, label="Adam")
    low, level, high = np.quantile(own, [0.25, 0.5, 0.75])
    axes.axhspan(low, high, color=ORANGE, alpha=0.2, lw=0)
    axes.axhline(level, color=ORANGE, lw=2, label="AdamQLR, which has none")
    axes.set(xscale="log", yscale="log", xlabel="Adam's learning rate")
    axes.set_title(f"batches of {batch}, {STEPS[batch]:,} steps", fontsize=11)
    best = int(np.argmin(middle))
    print(
        f"batch {batch}: AdamQLR {level:.4f} [{low:.4f}, {high:.4f}]; "
        f"best Adam {middle[best]:.4f} at {RATES[best]:.3g}; "
        f"Adam at 0.001 {middle[np.argmin(abs(RATES - 1e-3))]:.4f}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path("docs/images/learning-rates.svg")
    parser.add_argument("--output", type=Path, default=default)
    path = parser.parse_args().output
    x, y = load_digits(return_X_y=True)
    data = jnp.asarray(x, jnp.float32) / 16, jnp.asarray(y)
    style = {
        "svg.hashsalt": "adamqlr",  # the same file each time
        "font.size": 11,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "savefig.facecolor": "white",  # readable on a dark page too
    }
    with plt.rc_context(style):
        size = {"figsize": (8.4, 3.4), "layout": "constrained"}
        figure, row = plt.subplots(1, 2, sharey=True, **size)
        for axes, batch in zip(row, STEPS, strict=True):
            draw(axes, batch, *measure(batch, data))
        row[0].set_ylabel("final test loss")
        row[0].legend(frameon=False)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
