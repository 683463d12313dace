r"""Rosenbrock's valley, $f(x, y) = (a - x)^2 + b\,(y - x^2)^2$ with $a=1$, $b=100$.

There are no data. The model "predicts" the residuals $\sqrt2\,(a - x)$ and
$\sqrt{2b}\,(y - x^2)$ of a single example whose targets are zero, so that half their
square is $f$: K-FAC sees the least-squares form it needs, and everything else a loss
like any other. The paper's curvature here is the Hessian.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from adamqlr.jax import Gaussian, Hessian
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Split, Task
from qlrstudy.tasks.sampling import Examples

_A, _B = 1.0, 100.0


def _load(options: DataOptions) -> Dataset:
    del options
    split = Split(np.ones((1, 1), np.float32), np.zeros((1, 2), np.float32))
    return Dataset(split, split, split)


def _random_start(key: PRNGKeyArray) -> tuple[Float[Array, "2"], dict]:
    return jax.random.normal(key, (2,)), {}


def _shown_start(key: PRNGKeyArray) -> tuple[Float[Array, "2"], dict]:
    del key
    return jnp.array([1.0, -1.0]), {}


def _predict(
    params: Float[Array, "2"],
    inputs: Array,
    state: dict,
    *,
    training: bool,
    weights: Any = None,
) -> tuple[Float[Array, "batch 2"], dict]:
    del training, weights
    x, y = params
    residuals = jnp.stack(
        [jnp.sqrt(2.0) * (_A - x), jnp.sqrt(2 * _B) * (y - jnp.square(x))]
    )
    return inputs * residuals, state


_TUNING = Task(
    name="rosenbrock",
    title="Rosenbrock",
    scale="paper",
    budget=Budget("steps", 200),
    load=_load,
    examples=1,
    init=_random_start,
    predict=_predict,
    likelihood=Gaussian(),
    sampling=Examples(),
    evaluation_shape=BatchShape(1),
    adam_batch=BatchShape(1),
    qlr_batch=BatchShape(1),
    batch_sizes=(),
    curvature=Hessian(signed=True),
    traced=True,
)

# `paper` starts from N(0, I), as for tuning; `shown` where the paper's figure does.
SCALES = {
    "paper": _TUNING,
    "shown": dataclasses.replace(_TUNING, scale="shown", init=_shown_start),
}
