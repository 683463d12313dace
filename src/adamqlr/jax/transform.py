r"""Quadratic-model step sizes around any optax direction.

The method is a pairing of three small things: a *direction* (any optax
transformation), a *curvature* along it, and the *rule* that turns slope and bend into a
step size and the outcome into the next damping. Here they are measured and moved;
`adamqlr.step` has the method.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from adamqlr import step
from adamqlr.curvatures import check_pair
from adamqlr.jax.arguments import check_params, checked_arguments
from adamqlr.jax.curvature import Curvature, Point, Probe, ValueFn, as_objective
from adamqlr.jax.objective import Objective
from adamqlr.jax.scalars import scalar_dtype, slope_and_square, squares_are_finite
from adamqlr.measurements import Batch, Trial, measurement
from adamqlr.memory import Memory, begin
from adamqlr.rules import Truth
from adamqlr.settings import Rule
from adamqlr.step import StepInfo


class QLRState(NamedTuple):
    """What a step hands to the next.

    Attributes:
        base: state of the transformation that makes the direction.
        memory: of the method.
        info: on the last step.
        average: mean of the parameters, in float32 at least; `None` if the rule has
            none. `evaluation_params` reads it.
    """

    base: optax.OptState
    memory: Memory
    info: StepInfo
    average: PyTree


def qlr(
    base: optax.GradientTransformation,
    *,
    curvature: Curvature = Probe(),  # noqa: B008 - immutable
    rule: Rule = Rule(),  # noqa: B008 - immutable
) -> optax.GradientTransformationExtraArgs:
    r"""Step to the minimum of a damped quadratic model along the base's direction.

    $$\alpha = \frac{g^\top d}{d^\top (C + \lambda I)\, d}, \qquad
      \theta \gets \theta - \alpha d$$

    The update does not depend on the scale or sign of $d$, so `base` may be a bare
    direction (`optax.scale_by_adam()`) or a whole optimiser (`optax.adam(1.0)`).

    `update` takes optax's established extra arguments, all three required: `value` and
    `grad`, the loss and its raw gradient at `params`, and `value_fn`, the function of
    the parameters that they came from: an `Objective`, or any function where the rule
    has no budget and the curvature asks for no outputs (`ANY_LOSS` with `LossProbe`).
    A fourth, `outputs`, spares a probe one of its two evaluations of the model; it is
    what the objective predicts at `params`, from `Objective.with_outputs`. `train_step`
    makes the whole call. The trial loss is evaluated on the same batch. Whatever else
    shapes the update (clipping, weight decay) belongs before this transformation in a
    chain: placed after it, it would falsify the reduction ratio.

    Args:
        base: makes the direction $d$ out of the updates it is given.
        curvature: what $C$ is, and how $d^\top C d$ is measured.
        rule: how the length is chosen; see `Rule`.

    Returns:
        A transformation whose state is a `QLRState`.

    Examples:
        >>> import jax.numpy as jnp, optax
        >>> from adamqlr.jax import Hessian, Rule, qlr, train_step
        >>> optimiser = qlr(
        ...     optax.identity(), curvature=Hessian(), rule=Rule(None, budget=None))
        >>> loss = lambda params: jnp.sum((params - 3.0) ** 2)
        >>> params = jnp.zeros(2)
        >>> train_step(optimiser, loss, params, optimiser.init(params)).params.tolist()
        [3.0, 3.0]

    References:
        Clarke and Hernández-Lobato, *Studying K-FAC Heuristics by Viewing Adam through
        a Second-Order Lens*, 2024, algorithm 2 and equations 2 and 3.
    """
    check_pair(curvature, rule)
    base = optax.with_extra_args_support(base)

    def init(params: optax.Params) -> QLRState:
        check_params(params)
        dtype = scalar_dtype(params)
        # Each scalar is a buffer of its own, for none can be donated twice.
        memory = jax.tree.map(lambda x: jnp.array(x, dtype), begin(rule))
        count = lambda: jnp.zeros((), jnp.int32)
        memory = memory._replace(steps=count(), rejections=count())
        info = StepInfo(*[jnp.zeros((), dtype) for _ in StepInfo._fields])
        info = info._replace(
            limit=count(), rejected=jnp.zeros((), bool), rejections=count()
        )
        average = None
        if rule.average is not None:
            average = jax.tree.map(_at_least_float32, params)
        return QLRState(base.init(params), memory, info, average)

    def update(
        updates: optax.Updates,
        state: PyTree,
        params: optax.Params | None = None,
        *,
        value: Array | None = None,
        grad: optax.Updates | None = None,
        value_fn: ValueFn | None = None,
        outputs: PyTree = None,
        **extra: Any,
    ) -> tuple[optax.Updates, QLRState]:
        loss, params, value_fn = checked_arguments(params, value, grad, value_fn)
        _check_state(state)
        extra |= {"value": value, "grad": grad, "value_fn": value_fn}
        sound = jnp.isfinite(loss) & squares_are_finite((grad, updates))
        if isinstance(value_fn, Objective):
            sound &= value_fn.has_examples()  # Padding alone teaches nothing.
        batch, outputs = _batch(rule, value_fn, params, outputs, loss)

        def turn() -> tuple[optax.Updates, optax.OptState]:
            direction, new = base.update(updates, state.base, params, **extra)
            return direction, optax.tree.cast_like(new, state.base)

        def unturned() -> tuple[optax.Updates, optax.OptState]:
            return _nan(jax.eval_shape(turn)[0]), state.base

        # A batch that is not sound leaves nothing behind.
        direction, base_state = _if(sound, turn, unturned)
        slope, square_norm = slope_and_square(grad, direction)
        sound &= jnp.isfinite(slope) & jnp.isfinite(square_norm)

        point = Point(value_fn, params, outputs, loss)
        reach = step.reach(state.memory, loss, slope, batch)
        looked = step.is_due(rule, state.memory)
        look = _or_nan(looked, lambda: curvature.look(point, direction, reach))
        measured = measurement(
            look,
            loss=loss,
            slope=slope,
            square_norm=square_norm,
            looked=looked,
            sound=sound,
            epsilon=float(jnp.finfo(loss.dtype).eps),
            batch=batch,
        )
        proposal = step.propose(rule, state.memory, measured)
        trial = look.trial
        unseen = trial is None or trial.change is None
        if unseen and rule.damping is not None:
            there = optax.apply_updates(params, _moves(direction, proposal.step_size))
            change = _or_nan(looked, lambda: jnp.asarray(value_fn(there)) - loss)
            trial = Trial(proposal.step_size, change)
        memory, info = step.judge(rule, state.memory, measured, proposal, trial)

        move, average = _moves(direction, info.step_size), state.average
        if rule.average is not None:
            weight = step.averaging_weight(rule.average, memory, info)
            new = optax.apply_updates(params, move)
            average = jax.tree.map(lambda m, p: m + weight * (p - m), average, new)
        return move, _cast_like(QLRState(base_state, memory, info, average), state)

    return optax.GradientTransformationExtraArgs(init, update)


def evaluation_params(state: optax.OptState, params: optax.Params) -> optax.Params:
    """The parameters to evaluate, save or serve: the mean of those that were trained.

    Args:
        state: of an optimiser of this library, also inside a chain.
        params: those that are trained, which go on being so. They are the answer if
            the optimiser keeps no mean.
    """
    found = optax.tree.get_all_with_path(state, "average")

    def rank(path: tuple) -> tuple[bool, int]:
        """Parameters and settings may have that name too; moments then lie deeper."""
        return getattr(path[-1], "tuple_name", "") != QLRState.__name__, len(path)

    _, average = min(found, key=lambda at: rank(at[0]), default=((), None))
    if average is None:
        is_state = lambda node: isinstance(node, QLRState)
        if any(map(is_state, jax.tree.leaves(params, is_leaf=is_state))):
            raise TypeError("evaluation_params takes the state first, then the params")
        return params
    if jax.tree.structure(average) != jax.tree.structure(params):
        raise ValueError(
            "params must have the structure of those that were trained, "
            f"{jax.tree.structure(average)}, got {jax.tree.structure(params)} "
            "(of flax.nnx, pass nnx.pure(optimiser.opt_state) and "
            "nnx.pure(nnx.state(net, nnx.Param)))"
        )
    return optax.tree.cast_like(average, params)


def _check_state(state: PyTree) -> None:
    if not isinstance(state, QLRState):
        raise TypeError(
            "state must be that of this optimiser, a QLRState as init(params) "
            f"returns, got {type(state).__name__}: begin with init(params), or "
            "restore a checkpoint into the structure that it returns"
        )


def _batch(
    rule: Rule,
    value_fn: ValueFn,
    params: optax.Params,
    outputs: PyTree,
    loss: Float[Array, ""],
) -> tuple[Batch | None, PyTree]:
    """What a budget needs to know of the batch, and the outputs it took for that."""
    if rule.budget is None:
        return None, outputs
    objective = as_objective("Rule.budget", value_fn)
    outputs = objective.outputs(params) if outputs is None else outputs
    return objective.batch(outputs, loss), outputs


def _if(
    condition: Truth, evaluate: Callable[[], PyTree], skip: Callable[[], PyTree]
) -> PyTree:
    """What `evaluate` returns where the condition holds, what `skip` does elsewhere."""
    if condition is True:  # Known while tracing, which spares a `cond`.
        return evaluate()
    if not isinstance(condition, Tracer):
        # In a step that nobody compiles, `cond` would compile the model at every call.
        return evaluate() if condition else skip()
    return jax.lax.cond(condition, evaluate, skip)


def _or_nan(condition: Truth, evaluate: Callable[[], PyTree]) -> PyTree:
    """What `evaluate` returns where the condition holds, NaN elsewhere."""
    if isinstance(condition, Tracer):
        evaluate = jax.jit(evaluate)  # Traced once, for its shape and for use.
    return _if(condition, evaluate, lambda: _nan(jax.eval_shape(evaluate)))


def _nan(shapes: PyTree) -> PyTree:
    """NaN of these shapes, spread over devices alike where types say how."""
    nan = lambda x: jnp.full(x.shape, jnp.nan, x.dtype, device=x.sharding)
    return jax.tree.map(nan, shapes)


def _cast_like(new: QLRState, old: QLRState) -> QLRState:
    """Types wider or weaker than the old state's would compile the step twice."""
    like = lambda value, model: jnp.asarray(value, model.dtype)
    return QLRState(
        optax.tree.cast_like(new.base, old.base),
        jax.tree.map(like, new.memory, old.memory),
        jax.tree.map(like, new.info, old.info),
        jax.tree.map(like, new.average, old.average),
    )


def _at_least_float32(leaf: Array) -> Array:
    return jnp.array(leaf, jnp.promote_types(leaf.dtype, jnp.float32))


def _moves(direction: optax.Updates, step_size: Float[Array, ""]) -> optax.Updates:
    r"""$-\alpha d$; zero for a step size of zero, whatever the direction holds."""

    def move(leaf: Array) -> Array:
        return jnp.where(step_size == 0, 0, -step_size * leaf).astype(leaf.dtype)

    return jax.tree.map(move, direction)
