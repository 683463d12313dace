"""Muon for the matrices inside a network, Adam for everything else."""

from typing import Any

import jax
import optax
from optax.contrib import MuonDimensionNumbers

from qlrstudy.algorithms.stepper import adam_batch, optax_algorithm
from qlrstudy.spec import Params, Settings, Task


def labels(params: Params) -> Any:
    """`muon` for hidden kernels, dense or convolutional, and `adam` for the rest.

    The rest are vectors, embeddings, the first filters of a convolutional network and
    the layer that makes the outputs, as the authors have it: the last dense one, where
    the outputs are not made by the embeddings.
    """
    layers = params if isinstance(params, dict) else {}
    tied = any(name.startswith("Embed_") for name in layers)
    dense = [name for name in layers if name.startswith("Dense_")]
    outer = {"Conv_0"}
    if dense and not tied:
        outer.add(max(dense, key=lambda name: int(name.removeprefix("Dense_"))))

    def label(path: tuple[Any, ...], leaf: Any) -> str:
        names = [entry.key for entry in path]
        hidden = names[-1:] == ["kernel"] and names[0] not in outer and leaf.ndim > 1
        return "muon" if hidden else "adam"

    return jax.tree_util.tree_map_with_path(label, params)


def _as_matrices(params: Params) -> Any:
    """Kernels as matrices of outputs by all else."""
    axes = lambda leaf: MuonDimensionNumbers(tuple(range(leaf.ndim - 1)), leaf.ndim - 1)
    return jax.tree.map(axes, params)


def _build(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    muon = optax.contrib.muon(
        settings["learning_rate"], muon_weight_dimension_numbers=_as_matrices
    )
    # optax's own choice for the rest is a Nesterov Adam; the authors' is a plain one.
    adam = optax.adam(settings["adam_learning_rate"], b2=0.95, eps=1e-10)
    return optax.partition({"muon": muon, "adam": adam}, labels)


MUON = optax_algorithm(
    "muon",
    "Muon",
    _build,
    batch=adam_batch,
    defaults={"learning_rate": 0.02, "adam_learning_rate": 3e-4},
)
