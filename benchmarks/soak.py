"""A long run of a small network on bad terms, in both front ends.

    python benchmarks/soak.py --steps 200000

Batches change their size, some hold NaN, parameters are float32 or bfloat16 in turns,
in JAX also a mix of both, and every so often the state goes through a checkpoint.
Printed are the steps, those that were refused, the last loss, the growth of memory
after the first tenth, and how many numbers were not finite (none may be).
"""

import argparse
import gc
import io
import math
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.utils._pytree import tree_leaves

import adamqlr.jax as in_jax
import adamqlr.torch as in_torch

SIZES = (1, 7, 32)
BAD = 0.01  # of the batches hold a NaN
RESUMES = 20
INPUTS, HIDDEN, CLASSES = 8, 16, 3


def batches(steps: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Three Gaussian clusters; a NaN now and then."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(CLASSES, INPUTS))
    for _ in range(steps):
        size = int(generator.choice(SIZES))
        y = generator.integers(0, CLASSES, size)
        x = centres[y] + generator.normal(size=(size, INPUTS))
        if generator.random() < BAD:
            x[0, 0] = math.nan
        yield x.astype(np.float32), y


def memory() -> float:
    """Megabytes that this process has at this moment."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def report(name: str, steps: int, refused: int, loss: float, grown: float) -> None:
    print(
        f"| {name} | {steps:,} | {refused:,} | {loss:.3f} | {grown:+.1f} MB | 0 |",
        flush=True,
    )


def jax_soak(steps: int, dtypes: tuple[jnp.dtype, jnp.dtype]) -> None:
    def predict(params, x):
        hidden = jnp.tanh(x.astype(params["a"].dtype) @ params["a"])
        return (hidden.astype(params["b"].dtype) @ params["b"]).astype(jnp.float32)

    generator = np.random.default_rng(0)
    shapes = {"a": (INPUTS, HIDDEN), "b": (HIDDEN, CLASSES)}
    params = {
        name: jnp.asarray(0.3 * generator.normal(size=shape), dtype)
        for (name, shape), dtype in zip(shapes.items(), dtypes, strict=True)
    }
    optimiser = in_jax.adam_qlr()

    @jax.jit
    def step(params, state, x, y):
        objective = in_jax.Objective(predict, in_jax.Categorical(), x, y)
        return in_jax.train_step(optimiser, objective, params, state)

    state: Any = optimiser.init(params)
    losses, before = [], memory()
    for number, (x, y) in enumerate(batches(steps, 1)):
        params, state, loss, _ = step(params, state, x, y)
        losses.append(float(loss))
        if number % (steps // RESUMES) == 0:
            leaves, structure = jax.tree.flatten((params, state))
            params, state = structure.unflatten(map(jnp.asarray, map(np.array, leaves)))
            numbers = [
                leaf
                for leaf in jax.tree.leaves((params, state.memory, state.average))
                if not np.isfinite(np.asarray(leaf, np.float64)).all()
            ]
            assert not numbers, numbers
        if number == steps // 10:
            before = memory()
    kind = " and ".join(dict.fromkeys(str(jnp.dtype(d)) for d in dtypes))
    last = float(np.nanmean(losses[-steps // 10 :]))
    refused = int(state.memory.rejections)
    assert np.isnan(losses).sum() == refused, (np.isnan(losses).sum(), refused)
    report(f"JAX, {kind}", steps, refused, last, memory() - before)


def torch_soak(steps: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)

    def network() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(INPUTS, HIDDEN),
            torch.nn.Tanh(),
            torch.nn.Linear(HIDDEN, CLASSES),
        ).to(dtype)

    model = network()
    optimiser = in_torch.AdamQLR(model.parameters())
    losses, before = [], memory()
    for number, (x, y) in enumerate(batches(steps, 1)):
        inputs = torch.from_numpy(x).to(dtype)
        objective = in_torch.Objective(
            model, in_torch.Categorical(), inputs, torch.from_numpy(y)
        )
        losses.append(float(optimiser.step(objective)))
        if number % (steps // RESUMES) == 0:
            file = io.BytesIO()
            torch.save([model.state_dict(), optimiser.state_dict()], file)
            file.seek(0)
            model, saved = network(), torch.load(file)
            model.load_state_dict(saved[0])
            optimiser = in_torch.AdamQLR(model.parameters())
            optimiser.load_state_dict(saved[1])
            for tensor in tree_leaves(optimiser.state_dict()):
                assert not isinstance(tensor, torch.Tensor) or tensor.isfinite().all()
            assert all(param.isfinite().all() for param in model.parameters())
        if number == steps // 10:
            before = memory()
    last = float(np.nanmean(losses[-steps // 10 :]))
    refused = int(optimiser.param_groups[0]["memory_rejections"])
    assert np.isnan(losses).sum() == refused, (np.isnan(losses).sum(), refused)
    name = f"torch, {str(dtype).removeprefix('torch.')}"
    report(name, steps, refused, last, memory() - before)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000, help="of all together")
    part = parser.parse_args().steps // 5
    print("| | steps | refused | last loss | memory | not finite |")
    print("|---|---|---|---|---|---|")
    narrow, wide = jnp.dtype(jnp.bfloat16), jnp.dtype(jnp.float32)
    for dtypes in ((wide, wide), (narrow, narrow), (wide, narrow)):
        jax_soak(part, dtypes)
    for dtype in (torch.float32, torch.bfloat16):
        torch_soak(part, dtype)
