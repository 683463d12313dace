"""The pictures of `docs/how-it-works.md`, each of a computation with the library.

    python website/pictures.py [--output docs/images]

Needs the extras `jax` and `study`'s scikit-learn, and matplotlib; takes seconds.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from sklearn.datasets import load_digits

from adamqlr import rules
from adamqlr.jax import Categorical, KLBudget, Objective, adam_qlr, train_step

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402 - after the choice of what draws

BLUE, ORANGE, GREY = "#3b6fb6", "#d9730d", "#777777"
STYLE = {
    "svg.hashsalt": "adamqlr",  # the same file each time
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.figsize": (6.4, 3.2),
    "figure.constrained_layout.use": True,
}


def predict(params, x):
    return jnp.tanh(x @ params["a"]) @ params["b"]


def digits():
    x, y = load_digits(return_X_y=True)
    keys = jax.random.split(jax.random.key(0))
    shapes = {"a": (64, 50), "b": (50, 10)}
    drawn = {
        name: jax.random.normal(key, shapes[name]) / shapes[name][0] ** 0.5
        for name, key in zip(shapes, keys, strict=True)
    }
    return jnp.asarray(x, jnp.float32) / 16, jnp.asarray(y), drawn


def look():
    """The loss along the direction of a step, its parabola, and where they lead."""
    x, y, params = digits()
    objective = Objective(predict, Categorical(), x, y)
    optimiser = adam_qlr()
    state = optimiser.init(params)
    for _ in range(9):
        former = params
        params, state, *_ = train_step(optimiser, objective, params, state)
    info = state.info
    # The step was -step_size times the direction; from it the direction is known.
    move = jax.tree.map(lambda new, old: (new - old) / info.step_size, params, former)
    minimum = float(rules.step_size(info.slope, info.curvature))
    sizes = np.linspace(0, 2.2 * minimum, 60)
    along = lambda size: jax.tree.map(lambda p, m: p + size * m, former, move)
    losses = jax.vmap(lambda size: objective(along(size)))(jnp.asarray(sizes))
    change = rules.predicted_change(sizes, float(info.slope), float(info.curvature))
    model = float(info.loss) + change
    figure, axes = plt.subplots()
    axes.plot(sizes, losses, color=BLUE, lw=2, label="the loss of the batch")
    axes.plot(
        sizes, model, color=ORANGE, lw=2, ls="--", label="the parabola of one look"
    )
    axes.plot(minimum, model.min(), "o", color=ORANGE)
    axes.annotate(
        "its minimum:\nslope / curvature", (minimum, model.min()), (0, 22),
        textcoords="offset points", ha="center", color=ORANGE,
    )  # fmt: skip
    axes.set(xlabel="distance along Adam's direction", ylabel="loss")
    axes.legend(frameon=False)
    return figure


def budget():
    """What a step may move the predictions by, over a run, for three batch sizes."""
    rule, figure = KLBudget(), plt.figure()
    axes, steps = figure.subplots(), np.unique(np.geomspace(1, 10_000, 60).astype(int))
    for batch, colour in ((16, GREY), (256, BLUE), (4096, ORANGE)):
        allowed = lambda seen, batch=batch: rules.kl_allowance(
            rule.nats, batch, rule.power, seen, rule.decay
        )
        nats = [allowed(batch * step) for step in steps.tolist()]
        axes.loglog(steps, nats, color=colour, lw=2)
        axes.annotate(
            f"batches of {batch:,}", (steps[-1], nats[-1]), (6, 0),
            textcoords="offset points", va="center", color=colour,
        )  # fmt: skip
    axes.set(xlabel="step", ylabel="nats in one step")
    return figure


def average():
    """Two weights of a noisy quadratic at constant steps, and their average."""
    random, curvature = np.random.default_rng(3), np.array([1.0, 3.0])
    place, mean = np.array([-3.0, 2.2]), np.array([-3.0, 2.2])
    path, means = [place], [mean]
    for step in range(1, 301):
        noise = random.normal(size=2) * 2.0
        place = place - 0.12 * (curvature * place + noise)
        mean = mean + rules.averaging_weight(step, 8.0) * (place - mean)
        path.append(place)
        means.append(mean)
    figure, axes = plt.subplots()
    axes.plot(
        *np.array(path).T, color=GREY, lw=0.8, label="the weights that are trained"
    )
    axes.plot(*np.array(means).T, color=ORANGE, lw=2, label="their average")
    axes.plot(0, 0, "+", color=BLUE, ms=14, mew=2.5, label="the minimum")
    axes.set(xlabel="one weight", ylabel="another")
    axes.legend(frameon=False, loc="upper right")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs/images"))
    folder = parser.parse_args().output
    with plt.rc_context(STYLE):
        for draw in (look, budget, average):
            path = folder / f"how-{draw.__name__}.svg"
            draw().savefig(path, metadata={"Date": None})
            print(path)


if __name__ == "__main__":
    main()
