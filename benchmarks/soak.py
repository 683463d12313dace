"""A long run of a small network on bad terms, in both front ends.

    python benchmarks/soak.py --steps 200000

Batches change their size, some hold NaN, the layers are float32, bfloat16 or one of
each, and every so often the state goes through a checkpoint. Printed are the steps,
those that were refused, the last loss, the growth of memory after the first tenth, and
after how many steps any number that a step hands to the next was not finite. That must
be none, and memory must not grow: it ends with an error otherwise. Two soaks run at a
time, each in a process of its own.
"""

import argparse
import gc
import io
import math
import multiprocessing
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import adamqlr.jax as in_jax
import adamqlr.torch as in_torch

SIZES = (1, 7, 32)
BAD = 0.01  # of the batches hold a NaN
RESUMES = 20
INPUTS, HIDDEN, CLASSES = 8, 16, 3
TYPES = (("float32",) * 2, ("bfloat16",) * 2, ("float32", "bfloat16"))
ALLOWED_GROWTH = 10.0  # megabytes, of what allocators keep for later


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


class JaxSoak:
    """The network trained by `adamqlr.jax`."""

    def __init__(self, types: tuple[str, str]):
        def predict(params, x):
            hidden = jnp.tanh(x.astype(params["a"].dtype) @ params["a"])
            return (hidden.astype(params["b"].dtype) @ params["b"]).astype(jnp.float32)

        generator = np.random.default_rng(0)
        shapes = {"a": (INPUTS, HIDDEN), "b": (HIDDEN, CLASSES)}
        params = {
            name: jnp.asarray(0.3 * generator.normal(size=shape), dtype)
            for (name, shape), dtype in zip(shapes.items(), types, strict=True)
        }
        optimiser = in_jax.adam_qlr()

        @jax.jit
        def step(params, state, x, y):
            objective = in_jax.Objective(predict, in_jax.Categorical(), x, y)
            taken = in_jax.train_step(optimiser, objective, params, state)
            params, state, loss = taken.params, cast(Any, taken.state), taken.loss
            handed_on = params, state.base, state.memory, state.average
            finite = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(handed_on)]
            return params, state, loss, jnp.stack(finite).all()

        self._step, self._params = step, params
        self._state: Any = optimiser.init(params)

    def step(self, x: np.ndarray, y: np.ndarray) -> tuple[float, bool]:
        """The loss, and whether all that the next step is given is finite."""
        self._params, self._state, loss, finite = self._step(
            self._params, self._state, x, y
        )
        return float(loss), bool(finite)

    def resume(self) -> None:
        leaves, structure = jax.tree.flatten((self._params, self._state))
        leaves = [jnp.asarray(np.array(leaf)) for leaf in leaves]
        self._params, self._state = structure.unflatten(leaves)

    def refused(self) -> int:
        return int(self._state.memory.rejections)


class TorchSoak:
    """The network trained by `adamqlr.torch`."""

    def __init__(self, types: tuple[str, str]):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self._types = [getattr(torch, name) for name in types]
        self._model = self._network()
        self._optimiser = in_torch.AdamQLR(self._model.parameters())

    def _network(self) -> nn.Module:
        first, last = self._types
        return nn.Sequential(
            nn.Linear(INPUTS, HIDDEN, dtype=first),
            nn.Tanh(),
            _Cast(last),
            nn.Linear(HIDDEN, CLASSES, dtype=last),
        )

    def step(self, x: np.ndarray, y: np.ndarray) -> tuple[float, bool]:
        """The loss, and whether all that the next step is given is finite."""
        inputs, targets = torch.from_numpy(x).to(self._types[0]), torch.from_numpy(y)
        objective = in_torch.Objective(
            self._model, in_torch.Categorical(), inputs, targets
        )
        loss = self._optimiser.step(objective)
        states = [*self._model.parameters(), *self._optimiser.state.values()]
        tensors = tree_leaves([states, self._optimiser.param_groups[0]])
        finite = all(bool(torch.as_tensor(t).isfinite().all()) for t in tensors)
        return float(loss), finite

    def resume(self) -> None:
        file = io.BytesIO()
        torch.save([self._model.state_dict(), self._optimiser.state_dict()], file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        self._model = self._network()
        self._model.load_state_dict(saved[0])
        self._optimiser = in_torch.AdamQLR(self._model.parameters())
        self._optimiser.load_state_dict(saved[1])

    def refused(self) -> int:
        return int(self._optimiser.param_groups[0]["memory_rejections"])


class _Cast(nn.Module):
    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self._dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(self._dtype)


def soak(front_end: str, types: tuple[str, str], steps: int) -> tuple[str, bool]:
    """Train; a line of the table, and whether all was well."""
    network = JaxSoak(types) if front_end == "JAX" else TorchSoak(types)
    losses, not_finite, before = np.empty(steps), 0, 0.0
    for number, (x, y) in enumerate(batches(steps, 1)):
        losses[number], finite = network.step(x, y)
        not_finite += not finite
        if number % (steps // RESUMES) == 0:
            network.resume()
        if number == steps // 10:
            before = memory()
    grown, refused = memory() - before, network.refused()
    counted = int(np.isnan(losses).sum()) == refused
    last = float(np.nanmean(losses[-steps // 10 :]))
    name = f"{front_end}, {' and '.join(dict.fromkeys(types))}"
    cells = [name, f"{steps:,}", f"{refused:,}", f"{last:.3f}", f"{grown:+.1f} MB"]
    line = f"| {' | '.join([*cells, str(not_finite)])} |"
    return line, counted and not not_finite and grown < ALLOWED_GROWTH


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000, help="in each front end")
    part = parser.parse_args().steps // len(TYPES)
    print("| | steps | refused | last loss | memory | not finite |")
    print("|---|---|---|---|---|---|", flush=True)
    well = True
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, max_tasks_per_child=1) as pool:
        soaks = [(name, types) for name in ("JAX", "torch") for types in TYPES]
        names, types = zip(*soaks, strict=True)
        for line, sound in pool.map(soak, names, types, [part] * len(soaks)):
            print(line, flush=True)
            well &= sound
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
