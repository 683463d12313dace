"""ResNet-18 as XLA convolves on a CPU and as it is rearranged, on this machine.

    python benchmarks/convolutions.py [--batch 128] [--rounds 3]

CPU seconds of loss and gradient, the fastest of some rounds: of the network's kernels
on small maps, as products of matrices; of its first kernels, with their gradients by
parts of the batch, which pays from a few hundred examples on; of its pool; and of the
whole network on 32x32 images.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from qlrstudy.models import ResNet, batch_normed
from qlrstudy.models.convolution import by_convolution, by_matrix, by_parts
from qlrstudy.models.pooling import max_pool

# Height and width, channels before and after, size of the kernel, stride; the way.
LAYERS = (
    ((32, 3, 64, 7, 2), by_parts),
    ((8, 64, 64, 3, 1), by_parts),
    ((8, 64, 128, 3, 2), by_parts),
    ((4, 128, 128, 3, 1), by_parts),
    ((4, 128, 256, 3, 2), by_matrix),
    ((2, 256, 256, 3, 1), by_matrix),
    ((2, 256, 512, 3, 2), by_matrix),
    ((1, 512, 512, 3, 1), by_matrix),
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


def gradient(f: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
    """A compiled call of the loss and its gradient by all arguments."""
    loss = lambda *arguments: jnp.sum(f(*arguments) ** 2)
    program = jax.jit(jax.value_and_grad(loss, tuple(range(len(arguments)))))
    return lambda: program(*arguments)


def rows(batch: int) -> Iterator[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """A name, and the call both ways: XLA's, and rearranged."""
    keys = jax.random.split(jax.random.key(0), 3)
    for (size, before, after, kernel, stride), way in LAYERS:
        name = f"{kernel}x{kernel} on {size}x{size}, {before} to {after} channels"
        x = jax.random.normal(keys[0], (batch, size, size, before))
        w = jax.random.normal(keys[1], (kernel, kernel, before, after))
        theirs, ours = (partial(f, stride=stride) for f in (by_convolution, way))
        yield f"{name}, stride {stride}", gradient(theirs, x, w), gradient(ours, x, w)
    x = jax.random.normal(keys[0], (batch, 16, 16, 64))
    theirs = partial(nn.max_pool, window_shape=(3, 3), strides=(2, 2), padding="SAME")
    yield "pool of 3x3 on 16x16, stride 2", gradient(theirs, x), gradient(max_pool, x)
    x = jax.random.normal(keys[2], (batch, 32, 32, 3))
    direct, ours = (network(x, direct=direct) for direct in (True, False))
    yield "ResNet-18, with the pool of slices", direct, ours


def network(x: Array, *, direct: bool) -> Callable[[], Any]:
    """The whole network's loss and gradient on images."""
    net = batch_normed(ResNet(direct=direct), x.shape[1:])
    params, state = jax.jit(net.init)(jax.random.key(0))
    return gradient(lambda p: net.predict(p, x, state, training=True)[0], params)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| | as XLA has it (CPU s) | rearranged (CPU s) |\n|---|---|---|")
    for name, theirs, ours in rows(options.batch):
        times = (fastest(call, options.rounds) for call in (theirs, ours))
        print(f"| {name} |", " | ".join(f"{t:.3f}" for t in times), "|", flush=True)


if __name__ == "__main__":
    main()
