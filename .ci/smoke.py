"""What an installed package must do, for each of its extras: `python .ci/smoke.py jax`.

Run by `.ci/dist` in a fresh environment that has the wheel and one extra.
"""

import importlib
import subprocess
import sys
import tempfile
from pathlib import Path


def bare() -> None:
    """Without an extra there is the version, and front ends that name theirs."""
    import adamqlr

    assert adamqlr.__version__
    for extra in ("jax", "torch"):
        try:
            importlib.import_module(f"adamqlr.{extra}")
        except ModuleNotFoundError as error:
            assert f"adamqlr[{extra}]" in str(error)
        else:
            raise AssertionError(f"adamqlr.{extra} came without its extra")


def jax() -> None:
    """The trainer lowers a loss."""
    import jax
    import jax.numpy as jnp

    from adamqlr.jax import Categorical, trainer

    init, step = trainer(lambda w, x: x @ w, Categorical())
    params, batch = jnp.zeros((3, 3)), (jnp.eye(3), jnp.arange(3))
    state, step = init(params), jax.jit(step)
    for _ in range(20):
        params, state = step(params, state, batch)
    assert float(state.loss) < 0.5


def torch() -> None:
    """A plain loop lowers a loss, and the average is evaluated."""
    import torch
    from torch import nn

    from adamqlr.torch import AdamQLR

    model, criterion = nn.Linear(3, 3), nn.CrossEntropyLoss()
    optimizer = AdamQLR(model.parameters()).watch(model, criterion)
    for _ in range(20):
        optimizer.zero_grad()
        criterion(model(torch.eye(3)), torch.arange(3)).backward()
        optimizer.step()
    with optimizer.averaged():
        assert criterion(model(torch.eye(3)), torch.arange(3)).item() < 0.7


def clients() -> None:
    """The packages of the clients are there, and the callback for one of them."""
    for name in ("accelerate", "peft", "pytorch_lightning", "transformers"):
        importlib.import_module(name)
    importlib.import_module("adamqlr.torch.huggingface")
    torch()


def study() -> None:
    """A run and its report; K-FAC names its extra."""
    with tempfile.TemporaryDirectory() as folder:
        runs = ["--store", f"{folder}/runs"]
        assert _qlrstudy("run", "digits", "adamqlr", "--steps", "5", *runs) == 0
        assert _qlrstudy("report", f"{folder}/runs", "-o", f"{folder}/report") == 0
        assert (Path(folder) / "report" / "index.html").stat().st_size > 10_000
        kfac = ["rosenbrock", "kfac-untuned", "--scale", "shown"]
        assert _qlrstudy("run", *kfac, *runs) == 2
    jax()


def kfac() -> None:
    """K-FAC runs."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["run", "rosenbrock", "kfac-untuned", "--scale", "shown"]
        assert _qlrstudy(*command, "--store", folder) == 0


def _qlrstudy(*arguments: str) -> int:
    command = Path(sys.executable).with_name("qlrstudy")
    return subprocess.run([command, *arguments]).returncode


if __name__ == "__main__":
    checks = [bare, jax, torch, clients, study, kfac]
    {check.__name__: check for check in checks}[sys.argv[1]]()
    print(f"{sys.argv[1]}: ok")
