"""ResNet-18's small maps as convolutions and as matrix products, on this machine.

    python benchmarks/small_maps.py [--batch 128] [--rounds 3]

CPU seconds of loss and gradient, the fastest of some rounds: of each of the network's
3x3 kernels on maps of 4x4 and less, and of the whole network on 32x32 images.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from qlrstudy.models import ResNet, batch_normed
from qlrstudy.models.convolution import by_convolution, by_product

# Height and width, channels before and after, stride.
LAYERS = (
    (4, 128, 256, 2),
    (4, 128, 128, 1),
    (2, 256, 256, 1),
    (2, 256, 512, 2),
    (1, 512, 512, 1),
)


def fastest(call: Callable[[], Any], rounds: int) -> float:
    """CPU seconds of the fastest of some calls, after one that compiles."""
    jax.block_until_ready(call())
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        jax.block_until_ready(call())
        found.append(time.process_time() - begin)
    return min(found)


def layer(size: int, before: int, after: int, stride: int, batch: int, rounds: int):
    """A layer's CPU seconds, as a convolution and as a product."""
    x = jax.random.normal(jax.random.key(0), (batch, size, size, before))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, before, after))
    for way in (by_convolution, by_product):
        loss = lambda x, kernel, way=way: jnp.sum(way(x, kernel, stride) ** 2)
        program = jax.jit(jax.value_and_grad(loss, (0, 1)))
        yield fastest(lambda program=program: program(x, kernel), rounds)


def network(batch: int, rounds: int):
    """The whole network's, likewise."""
    images = jax.random.normal(jax.random.key(0), (batch, 32, 32, 3))
    for products in (False, True):
        net = batch_normed(ResNet(products=products), (32, 32, 3))
        params, state = jax.jit(net.init)(jax.random.key(0))

        def loss(params, net=net, state=state):
            return jnp.sum(net.predict(params, images, state, training=True)[0] ** 2)

        program = jax.jit(jax.value_and_grad(loss))
        yield fastest(lambda program=program, params=params: program(params), rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| | convolution (CPU s) | product (CPU s) |\n|---|---|---|")
    for size, before, after, stride in LAYERS:
        name = f"{size}x{size}, {before} to {after} channels, stride {stride}"
        times = layer(size, before, after, stride, options.batch, options.rounds)
        print(f"| {name} |", " | ".join(f"{t:.3f}" for t in times), "|", flush=True)
    times = network(options.batch, options.rounds)
    print("| ResNet-18 |", " | ".join(f"{t:.2f}" for t in times), "|")


if __name__ == "__main__":
    main()
