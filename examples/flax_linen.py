"""flax.linen: a convolution with batch norm, whose statistics are model state."""

import flax.linen as nn
import jax
import jax.numpy as jnp
from sklearn.datasets import load_digits

from adamqlr.jax import Categorical, trainer


class ConvNet(nn.Module):
    """Two convolutions with batch norm."""

    @nn.compact
    def __call__(self, x, train):
        for features in (8, 16):
            x = nn.Conv(features, (3, 3), (2, 2), use_bias=False)(x)
            x = nn.relu(nn.BatchNorm(not train, momentum=0.9)(x))
        return nn.Dense(10)(x.reshape(len(x), -1))


def main():
    x, y = load_digits(return_X_y=True)
    x = jnp.asarray(x, jnp.float32).reshape(-1, 8, 8, 1) / 16
    net = ConvNet()
    variables = net.init(jax.random.key(0), x[:1], train=True)

    def model(params, x, state):
        outputs, new = net.apply(
            {"params": params, "batch_stats": state},
            x,
            train=True,
            mutable=["batch_stats"],
        )
        return outputs, new["batch_stats"]

    init, step = trainer(model, Categorical())
    params = variables["params"]
    step, state = jax.jit(step), init(params, state=variables["batch_stats"])
    for i in range(60):
        params, state = step(params, state, (x[:1400], y[:1400]))
        if i % 20 == 19:
            print(f"step {i + 1}: loss {state.loss:.4f}")

    logits = net.apply(
        {"params": params, "batch_stats": state.model}, x[1400:], train=False
    )
    accuracy = jnp.mean(logits.argmax(-1) == y[1400:])
    print(f"test accuracy {accuracy:.3f}")
    assert accuracy > 0.85


if __name__ == "__main__":
    main()
