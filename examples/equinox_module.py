"""Equinox: the parameters are the module's arrays, split off from the rest."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from sklearn.datasets import load_diabetes

from adamqlr.jax import Gaussian, Objective, adam_qlr, train_step


def main():
    x, y = load_diabetes(return_X_y=True)
    standardise = lambda a: jnp.asarray((a - a.mean(0)) / a.std(0), jnp.float32)
    x, y = standardise(x), standardise(y)[:, None]

    net = eqx.nn.MLP(10, 1, width_size=32, depth=1, key=jax.random.key(0))
    params, static = eqx.partition(net, eqx.is_array)
    predict = lambda params, x: jax.vmap(eqx.combine(params, static))(x)

    optimiser = optax.chain(optax.add_decayed_weights(1e-3), adam_qlr())
    state = optimiser.init(params)

    @jax.jit
    def step(params, state):
        objective = Objective(predict, Gaussian(), x, y)
        return train_step(optimiser, objective, params, state)

    for i in range(60):
        params, state, loss, _ = step(params, state)
        if i % 20 == 19:
            info = optax.tree.get(state, "info")
            print(f"step {i + 1}: loss {loss:.4f}, step size {info.step_size:.3g}")
    assert loss < 0.25


if __name__ == "__main__":
    main()
