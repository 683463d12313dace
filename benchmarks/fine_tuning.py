"""What a trained network loses when it goes on with a new optimiser.

    python benchmarks/fine_tuning.py [--data-dir DIR]

A network is trained on Fashion-MNIST by Adam with a cosine, then goes on by other
optimisers that know nothing of it: on its own task, and on images with half of another
one mixed in. What is told are test losses of the parameters as they are: the largest of
the first hundred steps, and the last. Some minutes on one core.
"""

import argparse
import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from rich.console import Console
from rich.table import Table

from adamqlr.jax import Categorical, KLBudget, Objective, Rule, adam_qlr, train_step
from qlrstudy.spec import DataOptions, Split
from qlrstudy.tasks import TASKS

WIDTHS = (784, 100, 100, 10)
STEPS, BATCHES, FIRST, EVERY = 600, (16, 128), 100, 10
OPTIMISERS = {
    "default": adam_qlr(),
    "as if anew": adam_qlr(rule=Rule(budget=KLBudget(seen=0.0))),
    "Adam, 1e-4": optax.adam(1e-4),
    "Adam, 1e-3": optax.adam(1e-3),
}


def network(params: Any, x: Array) -> Array:
    for weights, biases in params[:-1]:
        x = jax.nn.relu(x @ weights + biases)
    weights, biases = params[-1]
    return x @ weights + biases


def fresh(key: Array) -> Any:
    ends = list(zip(WIDTHS[:-1], WIDTHS[1:], strict=True))
    keys = jax.random.split(key, len(ends))
    return [
        (jax.random.normal(key, (wide, out)) * (2 / wide) ** 0.5, jnp.zeros(out))
        for key, (wide, out) in zip(keys, ends, strict=True)
    ]


def objective(x: Array, y: Array) -> Objective:
    return Objective(network, Categorical(), x, y)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def trained(
    optimiser: optax.GradientTransformation,
    batch: int,
    steps: int,
    params: Any,
    train: tuple[Array, Array],
    test: tuple[Array, Array],
) -> tuple[Any, Array]:
    """Parameters, and test losses after each tenth step."""
    x, y = train

    def step(carry: Any, key: Array) -> tuple[Any, None]:
        rows = jax.random.randint(key, (batch,), 0, len(x))
        params, state, *_ = train_step(optimiser, objective(x[rows], y[rows]), *carry)
        return (params, state), None

    def some(carry: Any, key: Array) -> tuple[Any, Array]:
        carry, _ = jax.lax.scan(step, carry, jax.random.split(key, EVERY))
        return carry, objective(*test)(carry[0])

    keys = jax.random.split(jax.random.key(batch), steps // EVERY)
    carry, losses = jax.lax.scan(some, (params, optimiser.init(params)), keys)
    return carry[0], losses


def flat(split: Split) -> tuple[Array, Array]:
    return jnp.asarray(split.inputs).reshape(-1, WIDTHS[0]), jnp.asarray(split.targets)


def mixed(data: tuple[Array, Array]) -> tuple[Array, Array]:
    x, y = data
    return x + jnp.roll(x, len(x) // 2, 0) / 2, y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--data-dir", type=Path, help="by default as qlrstudy's")
    data = TASKS["fashion-mnist"]["paper"].load(
        DataOptions(parser.parse_args().data_dir)
    )
    train, test = flat(data.train), flat(data.test)
    adam = optax.adam(optax.cosine_decay_schedule(1e-3, 3000))
    params, _ = trained(adam, 128, 3000, fresh(jax.random.key(0)), train, test)

    table = Table("task", "batch", "optimiser", "start", "largest", "last")
    tasks = {"own": (train, test), "mixed": (mixed(train), mixed(test))}
    for task, (train, test) in tasks.items():
        start = f"{objective(*test)(params):.3f}"
        for batch in BATCHES:
            for name, optimiser in OPTIMISERS.items():
                _, losses = trained(optimiser, batch, STEPS, params, train, test)
                largest, last = losses[: FIRST // EVERY].max(), losses[-1]
                figures = start, f"{largest:.3f}", f"{last:.3f}"
                table.add_row(task, str(batch), name, *figures)
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    main()
