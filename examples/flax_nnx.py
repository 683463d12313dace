"""flax.nnx: the transformation inside `nnx.Optimizer`, with dropout and batch norm."""

import jax
import jax.numpy as jnp
from flax import nnx
from sklearn.datasets import load_digits

from adamqlr.jax import Categorical, Objective, adam_qlr


class Net(nnx.Module):
    """One hidden layer."""

    def __init__(self, rngs):
        self.hidden = nnx.Linear(64, 64, rngs=rngs)
        self.norm = nnx.BatchNorm(64, momentum=0.9, rngs=rngs)
        self.drop = nnx.Dropout(0.1, rngs=rngs)
        self.out = nnx.Linear(64, 10, rngs=rngs)

    def __call__(self, x):
        return self.out(self.drop(nnx.relu(self.norm(self.hidden(x)))))


@nnx.jit
def step(net, optimiser, x, y):
    # A copy of the module in every evaluation: all see the same dropout mask, and only
    # the gradient's brings its statistics and random state home.
    graph, params, rest = nnx.split(net, nnx.Param, ...)

    def predict(params, x):
        copy = nnx.merge(graph, params, rest, copy=True)
        return copy(x), nnx.split(copy, nnx.Param, ...)[2]

    objective = Objective(predict, Categorical(), x, y, has_aux=True)
    gradient = jax.value_and_grad(objective.with_outputs, has_aux=True)
    (value, (outputs, after)), grad = gradient(params)
    optimiser.update(
        net, grad, value=value, grad=grad, value_fn=objective, outputs=outputs
    )
    nnx.update(net, after)
    return value


def main():
    x, y = load_digits(return_X_y=True)
    x = jnp.asarray(x, jnp.float32) / 16
    net = Net(nnx.Rngs(0))
    optimiser = nnx.Optimizer(net, adam_qlr(), wrt=nnx.Param)
    for i in range(60):
        loss = step(net, optimiser, x[:1400], y[:1400])
        if i % 20 == 19:
            print(f"step {i + 1}: loss {loss:.4f}")
    net.eval()
    accuracy = jnp.mean(net(x[1400:]).argmax(-1) == y[1400:])
    print(f"test accuracy {accuracy:.3f}")
    assert accuracy > 0.85


if __name__ == "__main__":
    main()
