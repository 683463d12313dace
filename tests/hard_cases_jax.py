"""Training on the hard cases in JAX."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from adamqlr import jax as library
from hard_cases import Outcome, Problem

ADAM, DEFAULT = optax.adam(1e-3), library.adam_qlr()


def layers(problem: Problem):
    """Hidden layers, those of one shape in a row stacked, and the last one."""
    *hidden, last = zip(problem.weights, problem.biases, strict=True)
    alike = itertools.groupby(hidden, key=lambda layer: layer[0].shape)
    return [tuple(map(np.stack, zip(*same, strict=True))) for _, same in alike], last


def network(params, x, activation, batch_norm):
    def layer(x, one):
        x = x @ one[0] + one[1]
        if batch_norm:
            x = (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5)
        return getattr(jax.nn, activation)(x), None

    hidden, (weights, biases) = params
    for same in hidden:
        if len(same[0]) == 1:
            x, _ = layer(x, [part[0] for part in same])
        else:  # compiled once for all of them
            x, _ = jax.lax.scan(layer, x, same)
    return x @ weights + biases


def _trained(optimiser, kind, runs):
    """Runs that differ in numbers alone, one after another in one program."""
    likelihood, activation, batch_norm = kind
    predict = functools.partial(network, activation=activation, batch_norm=batch_norm)

    def objective(x, y):
        return library.Objective(predict, getattr(library, likelihood)(), x, y)

    def train(run):
        params, x, y, rows, not_finite = run

        def step(carry, batch):
            params, state, steps = carry
            rows, bad = batch
            loss = objective(jnp.where(bad, jnp.nan, x[rows]), y[rows])
            if isinstance(optimiser.init(params), library.QLRState):
                params, state, *_ = library.train_step(optimiser, loss, params, state)
                return (params, state, steps + ~state.info.rejected), None
            new, after, *_ = library.train_step(optimiser, loss, params, state)
            # Adam has no answer to batches that are not finite: it is spared them.
            kept = optax.tree.where(bad, (params, state), (new, after))
            return (*kept, steps + ~bad), None

        carry = params, optimiser.init(params), 0
        (last, state, steps), _ = jax.lax.scan(step, carry, (rows, not_finite))
        average = last
        if isinstance(state, library.QLRState):
            average = library.evaluation_params(state, last)
        losses = [objective(x, y)(each) for each in (params, last, average)]
        return jnp.stack(losses), steps

    return jax.lax.map(train, runs)


def _compiled(options):
    return jax.jit(_trained, static_argnums=(0, 1), compiler_options=options)


# Other tests compile more than they compute, and conftest leaves their programs as they
# are. Here a first level of optimisation pays where steps are many: two seconds more,
# and a fourth of a step's time. The next levels only compile for longer.
FEW = 3000
_few_steps = _compiled(None)
_many_steps = _compiled({"xla_backend_optimization_level": 1})


def train(problems: list[Problem], optimiser=DEFAULT) -> list[Outcome]:
    """Train each problem; they may differ in numbers, not in shapes or kind."""
    first = problems[0]
    runs = [(layers(p), p.x, p.y, p.rows, p.not_finite) for p in problems]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *runs)
    kind = first.likelihood, first.activation, first.batch_norm
    run = _few_steps if len(problems) * len(first.rows) < FEW else _many_steps
    losses, steps = jax.tree.map(np.asarray, run(optimiser, kind, stacked))
    return [
        Outcome(*map(float, each), steps=int(count))
        for each, count in zip(losses, steps, strict=True)
    ]
