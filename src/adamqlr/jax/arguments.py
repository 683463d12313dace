"""What users hand over, checked where they hand it over."""

import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from adamqlr.jax.axes import axis_names, mapped_axes
from adamqlr.jax.curvature import ValueFn
from adamqlr.jax.scalars import scalar_dtype


def checked_arguments(
    params: optax.Params | None,
    value: Array | None,
    grad: optax.Updates | None,
    value_fn: ValueFn | None,
) -> tuple[Float[Array, ""], optax.Params, ValueFn]:
    """Refuse a call without all it needs, saying what to pass."""
    given = {"params": params, "value": value, "grad": grad, "value_fn": value_fn}
    missing = [name for name, argument in given.items() if argument is None]
    if params is None or value is None or value_fn is None or missing:
        raise ValueError(
            f"update lacks {', '.join(missing)}: call train_step(optimiser, "
            "objective, params, state), or update(grad, state, params, value=value, "
            "grad=grad, value_fn=objective), where value, grad = "
            "jax.value_and_grad(objective)(params)"
        )
    if jnp.shape(value) != ():
        raise ValueError(
            f"value must be the scalar loss at params, got shape {jnp.shape(value)}"
        )
    if jax.tree.structure(grad) != jax.tree.structure(params):
        raise ValueError(
            "grad must be the loss's gradient, with the structure of params "
            f"{jax.tree.structure(params)}, got {jax.tree.structure(grad)}"
        )
    if not callable(value_fn):
        raise TypeError(
            "value_fn must be a function of the parameters that returns the loss, "
            f"got {type(value_fn).__name__}"
        )
    refuse_unnamed_axes(value_fn)
    refuse_multi_steps()
    refuse_later_in_chain()
    refuse_wrappers()
    return jnp.asarray(value, scalar_dtype(params)), params, value_fn


def checked_batch(batch: PyTree) -> tuple[PyTree, PyTree, Array | None]:
    """Inputs, targets and weights, where a batch has the last."""
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return (*batch, None)
    if isinstance(batch, tuple | list) and len(batch) == 3:
        return tuple(batch)
    match batch:
        case tuple() | list():
            found = f"{len(batch)} parts"
        case jax.Array() | np.ndarray():
            found = f"one array of shape {batch.shape}"
        case _:
            found = type(batch).__name__
    raise TypeError(
        f"batch must be (inputs, targets) or (inputs, targets, weights), got {found}: "
        "call step(params, state, (inputs, targets))"
    )


def check_model_state(new: PyTree, old: PyTree) -> None:
    """Refuse a new state of a model that could not take the place of the old one."""
    if _shapes(new) != _shapes(old):
        raise ValueError(
            "the model must return its new state with the structure and shapes of the "
            f"one that it was given, {_shapes(old)}, got {_shapes(new)}: init(params, "
            "state=...) takes what the model returns, and micro_batched of a model "
            "with state needs has_aux=True"
        )


def _shapes(tree: PyTree) -> dict[str, tuple[int, ...]]:
    leaves = jax.tree.leaves_with_path(tree)
    return {jax.tree_util.keystr(path): jnp.shape(leaf) for path, leaf in leaves}


def check_params(params: optax.Params) -> None:
    """Refuse parameters that cannot be trained: none, no real numbers, or float16.

    In float16 squares of gradients and Adam's epsilon vanish.
    """
    refuse_masked(params)
    leaves = jax.tree.leaves_with_path(params)
    if not leaves and type(params).__module__.startswith("optax."):
        return  # So `optax.tree.map_params` asks where a state has parameters.
    if not any(getattr(leaf, "size", 1) for _, leaf in leaves):
        raise ValueError(
            f"params must hold one number at least, got {params!r}: pass the "
            "parameters that are to be trained, as the model's own init returns them"
        )
    for path, leaf in leaves:
        dtype = getattr(leaf, "dtype", None)
        if dtype is None or not jnp.issubdtype(dtype, jnp.floating):
            found = type(leaf).__name__ if dtype is None else dtype
            raise TypeError(
                f"params{jax.tree_util.keystr(path)} must be an array of real numbers, "
                f"got {found}: keep what is not trained out of params, and complex "
                "numbers as two real ones"
            )
        if dtype == jnp.float16:
            raise ValueError(
                "parameters in float16 cannot be trained: squares of their gradients "
                "and eps=1e-8 vanish in it. Keep parameters in float32 and compute in "
                "half precision inside the model, or use bfloat16"
            )


def refuse_unnamed_axes(value_fn: ValueFn) -> None:
    """Refuse to step on devices that know nothing of each other's batch."""
    named = getattr(value_fn, "axis_name", None)
    unnamed = [axis for axis in mapped_axes() if axis not in axis_names(named)]
    if unnamed and named != ():
        names = (*axis_names(named), *unnamed)
        cure = names[0] if len(names) == 1 else names
        raise ValueError(
            f"the step runs inside pmap or shard_map over {unnamed[0]!r}, and each "
            "device would choose a length of its own: pass Objective(..., "
            f"axis_name={cure!r}), or axis_name=() if each trains by itself"
        )


def refuse_masked(params: optax.Params) -> None:
    """Refuse a part of the parameters, of which no `value_fn` is a function."""
    is_masked = lambda leaf: isinstance(leaf, optax.MaskedNode)
    if any(map(is_masked, jax.tree.leaves(params, is_leaf=is_masked))):
        raise ValueError(
            "optax.masked, partition or multi_transform around this optimiser hides "
            "parameters from it: put them inside, qlr(optax.partition({'train': "
            "optax.scale_by_adam(), 'freeze': optax.set_to_zero()}, labels))"
        )


def refuse_multi_steps() -> None:
    """Refuse `optax.MultiSteps`, which shows the last of its micro-batches alone."""
    if any(frame.f_code is optax.MultiSteps.update.__code__ for frame in _callers()):
        raise ValueError(
            "optax.MultiSteps would judge the mean gradient by the last "
            "micro-batch alone: pass Objective the whole batch and "
            "micro_batched(predict, parts), which needs no more memory"
        )


def _callers() -> Iterator[FrameType]:
    """The frames of all functions that wait for this one."""
    frame = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


def _code_of(transformation: Any) -> CodeType:
    return transformation.update.__code__


# The updates of optax's chains, which keep the states of those that are done in
# `new_state`, one for each of `state`.
_CHAINS = (
    _code_of(optax.chain(optax.identity())),
    _code_of(optax.named_chain(("", optax.identity()))),
)


def refuse_later_in_chain() -> None:
    """Refuse what would change a step after it was measured."""
    for frame in _callers():
        if frame.f_code in _CHAINS:
            done, states = map(frame.f_locals.get, ("new_state", "state"))
            if done is not None and states is not None and len(done) + 1 < len(states):
                raise ValueError(
                    "optax.chain has something after this optimiser, which would "
                    "change a step that was measured as it is: put clipping before "
                    "it, decay into weight_decay, and leave learning rates and "
                    "schedules out (Rule(horizon=Horizon(steps)) knows an end)"
                )


# Transformations of optax that make other steps of those of the optimiser inside, by
# the modules that they are in.
_WRAPPERS = {
    "optax.contrib._schedule_free": "schedule_free",
    "optax.contrib._mechanic": "mechanize",
}


def refuse_wrappers() -> None:
    """Refuse what moves parameters otherwise than by the steps that were measured."""
    for frame in _callers():
        name = _WRAPPERS.get(frame.f_globals.get("__name__", ""))
        if name is not None:
            raise ValueError(
                f"optax's {name} around this optimiser would move the parameters "
                "otherwise than by the step that was measured: use this optimiser "
                f"alone, without {name}; it needs no tuning, and has an average, "
                "evaluation_params(state, params)"
            )
