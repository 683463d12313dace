"""Handwritten digits: AdamQLR with no learning rate, against Adam with three.

    python examples/digits.py [--output demo]

Trains the same network on scikit-learn's bundled digits with each optimiser, prints
the losses, and writes them with a plot into the output directory.
"""

import argparse
import csv
import pathlib

import jax
import jax.numpy as jnp
import optax
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from adamqlr.jax import Categorical, adam_qlr, paper_adam_qlr, trainer

EPOCHS = 40


def model(params, x):
    return jax.nn.relu(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def initial_params(key):
    first, second = jax.random.split(key)
    return {
        "w1": jax.random.normal(first, (64, 50)) / 8,
        "b1": jnp.zeros(50),
        "w2": jax.random.normal(second, (50, 10)) / 50**0.5,
        "b2": jnp.zeros(10),
    }


def training(optimiser, train_set, test_set):
    """From a seed to the loss of each full-batch step and the test accuracy."""
    init, step = trainer(model, Categorical(), optimiser)

    def epoch(carry, _):
        params, state = step(*carry, train_set)
        return (params, state), state.loss

    @jax.jit
    def run(seed):
        params = initial_params(jax.random.key(seed))
        start = (params, init(params))
        (params, _), losses = jax.lax.scan(epoch, start, length=EPOCHS)
        inputs, labels = test_set
        return losses, jnp.mean(model(params, inputs).argmax(-1) == labels)

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=pathlib.Path, default="demo", help="directory for the results"
    )
    parser.add_argument("--seeds", type=int, default=5, help="runs of each optimiser")
    arguments = parser.parse_args()

    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(
        x.astype("float32") / 16, y, random_state=0
    )
    optimisers = {
        "AdamQLR, no learning rate": adam_qlr(),
        "AdamQLR, as published": paper_adam_qlr(),
    } | {f"Adam, learning rate {rate}": optax.adam(rate) for rate in (1e-3, 1e-2, 1e-1)}
    rows = []
    for name, optimiser in track(optimisers.items(), "training"):
        run = training(optimiser, (x_train, y_train), (x_test, y_test))
        rows += [(name, seed, *run(seed)) for seed in range(arguments.seeds)]

    arguments.output.mkdir(parents=True, exist_ok=True)
    write_losses(arguments.output / "digits.csv", rows)
    draw(arguments.output / "digits.png", optimisers, rows)
    print_table(optimisers, rows)
    print(f"results: {arguments.output}/digits.csv and {arguments.output}/digits.png")


def write_losses(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["optimiser", "seed", "epoch", "training_loss"])
        for name, seed, losses, _ in rows:
            for epoch, loss in enumerate(losses):
                writer.writerow([name, seed, epoch, f"{loss:.6g}"])


def draw(path, names, rows):
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for name in names:
        losses = jnp.stack([row[2] for row in rows if row[0] == name])
        middle = jnp.median(losses, axis=0)
        (line,) = axes.semilogy(middle, label=name)
        axes.fill_between(
            range(EPOCHS),
            losses.min(0),
            losses.max(0),
            color=line.get_color(),
            alpha=0.2,
        )
    axes.set(xlabel="epoch (one step each)", ylabel="training loss", title="digits")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def print_table(names, rows):
    table = Table(title=f"digits, 64-50-10 network, {EPOCHS} full-batch steps (median)")
    table.add_column("optimiser")
    table.add_column("training loss", justify="right")
    table.add_column("test accuracy", justify="right")
    for name in names:
        runs = [row for row in rows if row[0] == name]
        loss = jnp.median(jnp.stack([run[2][-1] for run in runs]))
        accuracy = jnp.median(jnp.stack([run[3] for run in runs]))
        table.add_row(name, f"{loss:.4f}", f"{accuracy:.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
