"""Flax modules as the pure functions that a task is made of."""

from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from qlrstudy.spec import ModelState, Params, Predict


class Network(NamedTuple):
    """A task's `init` and `predict`."""

    init: Callable[[PRNGKeyArray], tuple[Params, ModelState]]
    predict: Predict


def plain(
    module: nn.Module, example: tuple[int, ...], dtype: Any = jnp.float32
) -> Network:
    """A network without state.

    Args:
        module: called with inputs alone.
        example: shape of one example's inputs.
        dtype: of the inputs.
    """

    def init(key: PRNGKeyArray) -> tuple[Params, ModelState]:
        return module.init(key, jnp.zeros((1, *example), dtype))["params"], {}

    def predict(
        params: Params,
        inputs: Array,
        state: ModelState,
        *,
        training: bool,
        weights: Array | None = None,
    ) -> tuple[Array, ModelState]:
        del training, weights
        outputs = module.apply({"params": params}, inputs)
        assert isinstance(outputs, jax.Array)
        return outputs, state

    return Network(init, predict)


def batch_normed(module: nn.Module, example: tuple[int, ...]) -> Network:
    """A network whose state are batch norm's running statistics.

    Args:
        module: called with inputs, `training` and a `mask` of examples.
        example: shape of one example's inputs.
    """

    def init(key: PRNGKeyArray) -> tuple[Params, ModelState]:
        inputs = jnp.zeros((1, *example))
        variables = module.init(key, inputs, training=False)
        return variables["params"], variables["batch_stats"]

    def predict(
        params: Params,
        inputs: Array,
        state: ModelState,
        *,
        training: bool,
        weights: Float[Array, " batch"] | None = None,
    ) -> tuple[Array, ModelState]:
        outputs, changed = module.apply(
            {"params": params, "batch_stats": state},
            inputs,
            training=training,
            mask=None if weights is None else weights > 0,
            mutable=["batch_stats"],
        )
        # In evaluation flax hands the statistics back as they were.
        return outputs, changed["batch_stats"]

    return Network(init, predict)


def hits(
    outputs: Float[Array, "*examples classes"], targets: Int[Array, "*examples"]
) -> Bool[Array, "*examples"]:
    """Whether the most probable class is the right one, for each example."""
    return jnp.argmax(outputs, axis=-1) == targets
