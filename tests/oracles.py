"""Slow, obvious answers: dense matrices and exhaustive expectations."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from adamqlr.jax import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Huber,
    Laplace,
    Poisson,
)


def possible_targets(likelihood, outputs) -> tuple[jax.Array, jax.Array]:
    """The targets one example can have, and their probabilities under the model."""
    grid = lambda values: jnp.asarray(
        list(itertools.product(values, repeat=outputs.size)), outputs.dtype
    )
    match likelihood:
        case Categorical():
            return jnp.arange(outputs.size), jax.nn.softmax(outputs)
        case Bernoulli():
            bits, p = grid([0, 1]), jax.nn.sigmoid(outputs)
            return bits, jnp.prod(jnp.where(bits == 1, p, 1 - p), axis=-1)
        case Gaussian():
            # Gauss-Hermite nodes integrate the score's second moments exactly.
            nodes, weights = np.polynomial.hermite_e.hermegauss(3)
            probabilities = jnp.prod(grid(weights / weights.sum()), axis=-1)
            return outputs + grid(nodes), probabilities
        case Poisson():
            counts = grid(range(40))
            rates = jnp.exp(outputs) if likelihood.log_rate else outputs
            log_p = jax.scipy.stats.poisson.logpmf(counts, rates)
            return counts, jnp.exp(jnp.sum(log_p, axis=-1))
        case Laplace():
            nodes, weights = _two_tails(0.0)
            probabilities = jnp.prod(grid(weights / weights.sum()), axis=-1)
            return outputs + likelihood.deviation * grid(nodes), probabilities
        case Huber():
            inner, lengths = np.polynomial.legendre.leggauss(20)
            outer, tails = _two_tails(1.0)
            weights = np.append(lengths * np.exp(-(inner**2) / 2), np.exp(-0.5) * tails)
            probabilities = jnp.prod(grid(weights / weights.sum()), axis=-1)
            errors = grid(np.append(inner, outer))
            return outputs + likelihood.delta * errors, probabilities
        case _:
            raise TypeError(f"no list of targets for {likelihood}")


def _two_tails(start):
    """Nodes and weights for exp(start - |r|) beyond start, on both sides."""
    nodes, weights = np.polynomial.laguerre.laggauss(5)
    return np.append(-start - nodes, start + nodes), np.append(weights, weights)


def nat(likelihood) -> float:
    """What one nat is of a loss that is no negative log-likelihood as it stands."""
    match likelihood:
        case Laplace():
            return likelihood.deviation
        case Huber():
            return likelihood.delta**2
        case _:
            return 1.0


@functools.partial(jax.jit, static_argnums=0)
def output_fisher(likelihood, outputs) -> jax.Array:
    """E[score score'] of one example, by enumeration of its targets.

    Scores are the loss's gradients; times the nat, it is that of the loss.
    """
    targets, probabilities = possible_targets(likelihood, outputs)
    score = jax.grad(lambda z, y: likelihood.loss(z[None], y[None])[0])
    scores = jax.vmap(score, in_axes=(None, 0))(outputs, targets)
    fisher = jnp.einsum("k,ki,kj->ij", probabilities, scores, scores)
    return fisher / nat(likelihood)


@jax.jit
def heteroscedastic_fisher(mean, variance) -> jax.Array:
    """The same for outputs (mean, variance) of one number, by Gauss-Hermite."""
    likelihood = HeteroscedasticGaussian()
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    targets = mean + jnp.sqrt(variance) * nodes
    loss = lambda z, y: likelihood.loss((z[:1, None], z[1:, None]), y[None, None])[0]
    score = jax.vmap(jax.grad(loss), in_axes=(None, 0))
    scores = score(jnp.stack([mean, variance]), targets)
    return jnp.einsum("k,ki,kj->ij", weights / weights.sum(), scores, scores)


def output_hessian(likelihood, outputs, target) -> jax.Array:
    return jax.hessian(lambda z: likelihood.loss(z[None], target[None])[0])(outputs)


def _flat_outputs(objective, params):
    flat, unravel = ravel_pytree(params)
    width = objective.outputs(params).shape[-1]
    predict = lambda theta: objective.outputs(unravel(theta)).reshape(-1, width)
    return predict(flat), jax.jacobian(predict)(flat)


def _flat_weights(objective, examples):
    if objective.weights is None:
        return np.full(examples, 1 / examples)
    weights = jnp.asarray(objective.weights)
    each = examples // weights.size
    repeated = np.repeat(np.asarray(weights, float).ravel(), each)
    return repeated / repeated.sum()


@functools.partial(jax.jit, static_argnums=0)
def dense_fisher(objective, params) -> jax.Array:
    """Sum of w_i J_i' F_i J_i over examples."""
    outputs, jacobians = _flat_outputs(objective, params)
    fishers = [output_fisher(objective.likelihood, z) for z in outputs]
    weights = _flat_weights(objective, len(outputs))
    return jnp.einsum(
        "n,nia,nij,njb->ab", weights, jacobians, jnp.stack(fishers), jacobians
    )


@functools.partial(jax.jit, static_argnums=0)
def dense_gauss_newton(objective, params) -> jax.Array:
    """Sum of w_i J_i' H_i J_i over examples."""
    outputs, jacobians = _flat_outputs(objective, params)
    targets = jnp.asarray(objective.targets)
    event = () if jnp.issubdtype(targets.dtype, jnp.integer) else outputs.shape[1:]
    targets = targets.reshape((len(outputs), *event))
    hessians = jax.vmap(lambda z, y: output_hessian(objective.likelihood, z, y))(
        outputs, targets
    )
    weights = _flat_weights(objective, len(outputs))
    return jnp.einsum("n,nia,nij,njb->ab", weights, jacobians, hessians, jacobians)


@functools.partial(jax.jit, static_argnums=0)
def batch_gauss_newton(objective, params) -> jax.Array:
    """J' H J of the whole batch at once, with H the Hessian of its mean loss.

    No example is told from another: any shape of outputs, weights and divisors will do.
    """
    theta, unravel = ravel_pytree(params)
    outputs, unravel_outputs = ravel_pytree(objective.outputs(params))
    flat = lambda theta: ravel_pytree(objective.outputs(unravel(theta)))[0]
    hessian = jax.hessian(lambda z: objective.loss(unravel_outputs(z)))(outputs)
    jacobian = jax.jacobian(flat)(theta)
    return jacobian.T @ hessian @ jacobian


@functools.partial(jax.jit, static_argnums=0)
def dense_hessian(value_fn, params) -> jax.Array:
    flat, unravel = ravel_pytree(params)
    return jax.hessian(lambda theta: value_fn(unravel(theta)))(flat)


def brute_force_minimum(function, low: float, high: float) -> float:
    """Minimiser on an interval, by grids that shrink around the best point."""
    for _ in range(12):
        grid = np.linspace(low, high, 101)
        best = int(np.argmin([function(x) for x in grid]))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 100)]
    return (low + high) / 2
