"""Sums over the devices of a mapped axis, as `pmap` and `shard_map` have them.

A batch is cut over the devices and the parameters are the same on each. The loss is the
mean of the joined batch on every device, and so is its gradient, whichever of the two
maps it is and whether or not that keeps account of what varies between devices.
"""

import functools

import jax
from jaxtyping import Array, PyTree

AxisName = str | tuple[str, ...] | None


def axis_names(axis: AxisName) -> tuple[str, ...]:
    """The names of some axes, however they are given."""
    return (axis,) if isinstance(axis, str) else axis or ()


def total(value: PyTree, axis: AxisName) -> PyTree:
    """The sum over the devices of an axis, the value itself without one."""
    return jax.lax.psum(value, axis) if axis else value


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def summed(value: Array, axis: AxisName) -> Array:
    """The sum of a loss over devices, of which each has its own part to answer for."""
    return jax.lax.psum(value, axis)


def _summed_forward(value: Array, axis: AxisName) -> tuple[Array, None]:
    return summed(value, axis), None


def _summed_backward(axis: AxisName, _: None, cotangent: Array) -> tuple[Array]:
    return (_varying(cotangent, axis),)


summed.defvjp(_summed_forward, _summed_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def shared(params: PyTree, axis: AxisName) -> PyTree:
    """Parameters that all devices use, whose gradient is the sum of all of theirs."""
    return _varying(params, axis)


def _shared_forward(params: PyTree, axis: AxisName) -> tuple[PyTree, None]:
    return shared(params, axis), None


def _shared_backward(axis: AxisName, _: None, cotangent: PyTree) -> tuple[PyTree]:
    return (jax.lax.psum(cotangent, axis),)


shared.defvjp(_shared_forward, _shared_backward)


def refuse_sharded(params: PyTree, axis: AxisName) -> None:
    """Refuse parameters of which each device has a part, where types tell it."""
    for path, leaf in jax.tree.leaves_with_path(params):
        cut = set(axis_names(axis)) & set(getattr(jax.typeof(leaf), "vma", ()))
        if cut:
            raise ValueError(
                f"params{jax.tree_util.keystr(path)} differs between the devices of "
                f"{min(cut)!r}, and inside shard_map all must have the same "
                "parameters: shard parameters under jit, where the step needs no "
                "axis_name"
            )


def _varying(tree: PyTree, axis: AxisName) -> PyTree:
    """The same values, of which it is no longer said that they are alike.

    `vmap` and older `pmap` keep no account of that.
    """
    axis = tuple(name for name in axis_names(axis) if name in mapped_axes())
    if hasattr(jax.lax, "pcast"):  # Since JAX 0.9, where pvary is deprecated.
        return jax.tree.map(lambda x: jax.lax.pcast(x, axis, to="varying"), tree)
    return jax.lax.pvary(tree, axis)


def mapped_axes() -> tuple[str, ...]:
    """The axes over which `shard_map`, or `pmap` since JAX 0.8, runs this code."""
    return tuple(jax.sharding.get_abstract_mesh().manual_axes)
