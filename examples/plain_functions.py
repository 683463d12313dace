"""Plain functions: no neural-network library, no optax in sight.

A network with dropout and weights for the examples, trained in minibatches.
"""

import jax
import jax.numpy as jnp

from adamqlr.jax import Bernoulli, trainer


def model(params, x, key):
    hidden = jax.nn.relu(x @ params["w1"])
    keep = jax.random.bernoulli(key, 0.9, hidden.shape)
    return (hidden * keep / 0.9) @ params["w2"]


def main():
    keys = jax.random.split(jax.random.key(0), 4)
    x = jax.random.normal(keys[0], (2048, 4))
    y = (x[:, :1] * x[:, 1:2] > 0).astype(jnp.float32)
    weights = jnp.where(abs(x[:, 0]) < 0.05, 0.0, 1.0)  # leave doubtful ones out
    params = {
        "w1": jax.random.normal(keys[1], (4, 64)),
        "w2": jax.random.normal(keys[2], (64, 1)) / 8,
    }

    init, step = trainer(model, Bernoulli())
    step, state = jax.jit(step), init(params, key=keys[3])
    for epoch in range(30):
        for i in range(0, len(x), 512):
            rows = slice(i, i + 512)
            batch = (x[rows], y[rows], weights[rows])
            params, state = step(params, state, batch)
        if epoch % 10 == 9:
            info = state.optimiser.info
            print(
                f"epoch {epoch + 1}: loss {state.loss:.4f}, "
                f"step size {info.step_size:.3g}, damping {info.damping:.3g}"
            )
    assert state.loss < 0.4


if __name__ == "__main__":
    main()
