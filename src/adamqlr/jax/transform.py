r"""Quadratic-model step sizes around any optax direction.

The method is a pairing of three small things: a *direction* (any optax
transformation), a *curvature* along it, and the *rules* that turn slope and bend into a
step size and the outcome into the next damping.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from adamqlr import rules
from adamqlr.jax.arguments import checked_arguments
from adamqlr.jax.curvature import (
    Curvature,
    Point,
    Probe,
    ValueFn,
    as_objective,
    inner_product,
    scalar_dtype,
)
from adamqlr.jax.memory import Budget, Seen
from adamqlr.jax.state import QLRState, StepInfo


def qlr(
    base: optax.GradientTransformation,
    *,
    curvature: Curvature = Probe(),  # noqa: B008 - immutable
    damping: float | None = 1e-3,
    damping_decrease: float = 0.5,
    damping_increase: float = 2.0,
    damping_floor: float = 1e-8,
    rescale: float = 1.0,
    max_step_size: float | None = None,
    kl_budget: float | None = 0.005,
    kl_decay: float = 0.5,
    curvature_decay: float | None = 0.9,
    ratio_every: int = 1,
) -> optax.GradientTransformationExtraArgs:
    r"""Step to the minimum of a damped quadratic model along the base's direction.

    $$\alpha = \frac{g^\top d}{d^\top (C + \lambda I)\, d}, \qquad
      \theta \gets \theta - \alpha d$$

    The update does not depend on the scale or sign of $d$, so `base` may be a bare
    direction (`optax.scale_by_adam()`) or a whole optimiser (`optax.adam(1.0)`).

    `update` takes optax's established extra arguments, all three required: `value` and
    `grad`, the loss and its raw gradient at `params`, and `value_fn`, the function of
    the parameters that they came from: an `Objective`, or any function with `Hessian`.
    A fourth, `outputs`, spares a probe one of its two evaluations of the model; it is
    what the objective predicts at `params`, from `Objective.with_outputs`.
    The trial loss is evaluated on the same batch. Whatever else shapes the update
    (clipping, weight decay) belongs before this transformation in a chain: placed
    after it, it would falsify the reduction ratio.

    Args:
        base: makes the direction $d$ out of the updates it is given.
        curvature: what $C$ is, and how $d^\top C d$ is measured.
        damping: initial $\lambda > 0$; `None` for no damping and no trial loss.
        damping_decrease: $\omega_\mathrm{dec}$ in (0, 1].
        damping_increase: $\omega_\mathrm{inc} \ge 1$.
        damping_floor: smallest $\lambda$.
        rescale: $k > 0$, multiplies $\alpha$.
        max_step_size: limit on $|\alpha|$ after rescaling; `None` for no limit.
        kl_budget: $\kappa_0$, which limits the step's KL divergence, in nats for each
            example of the batch, to $\kappa_0 n^{-p}$, $n$ being the examples seen so
            far: $\alpha^2 d^\top C d \le 2\phi\, \kappa_0 n^{-p} |B|$, with $\phi$ the
            variance of targets that have units, one for others; `None` for no limit.
        kl_decay: $p$ in [0, 1]; zero for a budget that stays.
        curvature_decay: of the running mean of $d^\top C d / d^\top d$, below which no
            batch's curvature is taken; `None` for each batch's own.
        ratio_every: measure the reduction ratio, at the cost of a forward pass, only
            at each so many-th step; the damping stays as it is in between. A probe's
            ratio is free and measured at each.

    Returns:
        A transformation whose state is a `QLRState`.

    Example:
        >>> import jax, jax.numpy as jnp, optax
        >>> from adamqlr.jax import Hessian, qlr
        >>> optimiser = qlr(
        ...     optax.identity(), curvature=Hessian(), damping=None, kl_budget=None)
        >>> loss = lambda params: jnp.sum((params - 3.0) ** 2)
        >>> params = jnp.zeros(2)
        >>> state = optimiser.init(params)
        >>> value, grad = jax.value_and_grad(loss)(params)
        >>> updates, state = optimiser.update(
        ...     grad, state, params, value=value, grad=grad, value_fn=loss)
        >>> optax.apply_updates(params, updates).tolist()
        [3.0, 3.0]

    References:
        Clarke and Hernández-Lobato, *Studying K-FAC Heuristics by Viewing Adam through
        a Second-Order Lens*, 2024, algorithm 2 and equations 2 and 3.
    """
    rules.check_settings(
        {
            "damping": damping,
            "damping_decrease": damping_decrease,
            "damping_increase": damping_increase,
            "damping_floor": damping_floor,
            "rescale": rescale,
            "max_step_size": max_step_size,
            "kl_budget": kl_budget,
            "kl_decay": kl_decay,
            "curvature_decay": curvature_decay,
            "ratio_every": ratio_every,
        }
    )
    base = optax.with_extra_args_support(base)

    def init(params: Any) -> QLRState:
        dtype = scalar_dtype(params)
        # Each scalar is a buffer of its own, for none can be donated twice.
        info = StepInfo(
            *[jnp.zeros((), dtype) for _ in range(9)],
            limit=jnp.zeros((), jnp.int32),
            rejected=jnp.zeros((), bool),
            rejections=jnp.zeros((), jnp.int32),
        )
        initial_damping = jnp.array(0 if damping is None else damping, dtype)
        return QLRState(
            base=base.init(params),
            damping=initial_damping,
            reach=jnp.zeros((), dtype),
            seen=Seen.nothing(dtype),
            steps=jnp.zeros((), jnp.int32),
            info=info,
        )

    def budgeted(seen: Seen, point: Point, loss: Array) -> tuple[Seen, Budget]:
        """Count the batch, and tell what its step may cost."""
        if kl_budget is None:
            return seen, Budget(dispersion=1.0, allowed=None, least=None)
        objective = as_objective("kl_budget", point.value_fn)
        batch, scale = objective.examples(point.params), objective.scale(loss)
        decay = 0.0 if curvature_decay is None else curvature_decay
        seen = seen.with_batch(batch, scale, decay)
        dispersion = (
            1.0 if scale is None else rules.dispersion(seen.variance, seen.error)
        )
        allowance = rules.kl_allowance(kl_budget, kl_decay, seen.examples)
        allowed = allowance * batch * dispersion
        return seen, Budget(dispersion, allowed, objective.least())

    def limited(
        step_size: Array, curvature: Array, allowed: Array | None
    ) -> tuple[Array, Int[Array, ""]]:
        """Cut a step to its limits; also tells which one decided."""
        limit = jnp.zeros((), jnp.int32)
        if allowed is not None:
            divergence = rules.kl_divergence(step_size, curvature)
            excess = rules.excess(divergence, allowed)
            step_size = rules.shortened(step_size, excess)
            limit = jnp.where(excess > 1, rules.Limit.KL_BUDGET, limit)
        if max_step_size is not None:
            excess = abs(step_size) / max_step_size
            step_size = rules.shortened(step_size, excess)
            limit = jnp.where(excess > 1, rules.Limit.MAX_STEP_SIZE, limit)
        return step_size, limit

    def update(
        updates: Any,
        state: Any,
        params: Any = None,
        *,
        value: Array | None = None,
        grad: Any = None,
        value_fn: ValueFn | None = None,
        outputs: Any = None,
        **extra: Any,
    ) -> tuple[Any, QLRState]:
        loss, value_fn = checked_arguments(params, value, grad, value_fn)
        # A gradient that is not finite must not enter the base's memory. Clearing it
        # costs a pass over the gradient; keeping the old memory, two copies of it.
        sound = jnp.isfinite(loss) & jnp.isfinite(inner_product(updates, updates))
        updates = optax.tree.where(sound, updates, optax.tree.zeros_like(updates))
        extra |= {"value": value, "grad": grad, "value_fn": value_fn}
        direction, base_state = base.update(updates, state.base, params, **extra)

        slope = inner_product(grad, direction)
        square_norm = inner_product(direction, direction)
        point = Point(value_fn, params, outputs)
        look = curvature.look(point, direction, state.reach)
        seen, budget = budgeted(state.seen, point, loss)
        bent = look.curvature
        if curvature_decay is not None:
            seen = seen.with_curvature(bent, square_norm, curvature_decay)
            bent = rules.steadied(bent, seen.curvature * square_norm)
        rounding = 4 * jnp.finfo(loss.dtype).eps * abs(loss)
        if budget.least is not None:
            height = loss - budget.least + rounding
            bent = rules.steadied(bent, rules.least_curvature(slope, height))
        bend = rules.bend(bent, state.damping * budget.dispersion, square_norm)
        step_size, limit = limited(
            rescale * rules.step_size(slope, bend), bent, budget.allowed
        )
        step = _scaled(-step_size, direction)
        predicted = rules.predicted_change(step_size, slope, bend)

        if look.trial is None:
            measured = damping is not None and _is_due(state.steps, ratio_every)
            trial_loss = _trial_loss(value_fn, params, step, measured)
            change = trial_loss - loss
        elif look.trial.change is None:
            measured, trial_loss = False, jnp.full_like(loss, jnp.nan)
            change = trial_loss
        else:
            measured, trial_loss = True, loss + look.trial.change
            change = rules.change_at(step_size, slope, *look.trial)
            rounding *= (step_size / look.trial.distance) ** 2
        ratio = rules.reduction_ratio(change, predicted, rounding)

        accepted = sound & jnp.isfinite(bend) & jnp.isfinite(step_size)
        accepted &= jnp.isfinite(trial_loss) | jnp.logical_not(measured)
        next_damping = rules.next_damping(
            state.damping,
            jnp.where(accepted, ratio, -jnp.inf),
            damping_decrease,
            damping_increase,
            damping_floor,
        )
        step_size, step = optax.tree.where(
            accepted, (step_size, step), optax.tree.zeros_like((step_size, step))
        )
        info = StepInfo(
            loss=loss,
            trial_loss=trial_loss,
            slope=slope,
            curvature=look.curvature,
            step_size=step_size,
            damping=state.damping,
            reduction_ratio=ratio,
            predicted_change=predicted,
            kl_divergence=rules.kl_divergence(
                step_size, look.curvature, budget.dispersion
            ),
            limit=limit,
            rejected=~accepted,
            rejections=state.info.rejections + ~accepted,
        )
        new_state = QLRState(
            base=base_state,
            damping=state.damping if damping is None else next_damping,
            reach=jnp.where(accepted, abs(step_size), state.reach / 4),
            seen=optax.tree.where(accepted, seen, state.seen),
            steps=jnp.asarray(optax.safe_increment(state.steps)),
            info=info,
        )
        # Types wider or weaker than the old state's would compile the step twice.
        return step, optax.tree.cast_like(new_state, state)

    return optax.GradientTransformationExtraArgs(init, update)


def _scaled(factor: Float[Array, ""], tree: Any) -> Any:
    return jax.tree.map(lambda leaf: (factor * leaf).astype(leaf.dtype), tree)


def _is_due(steps: Int[Array, ""], every: int) -> bool | Bool[Array, ""]:
    """Known while tracing where it is so at every step, which spares a `cond`."""
    if isinstance(every, int) and every == 1:
        return True
    return steps % every == 0


def _trial_loss(
    value_fn: ValueFn, params: Any, step: Any, measured: bool | Bool[Array, ""]
) -> Float[Array, ""]:
    """The loss after the step where it is to be measured, NaN elsewhere."""

    def evaluate() -> Array:
        return jnp.asarray(value_fn(optax.apply_updates(params, step)))

    def skip() -> Array:
        return jnp.full_like(jax.eval_shape(evaluate), jnp.nan)

    if isinstance(measured, bool):
        return evaluate() if measured else skip()
    return jax.lax.cond(measured, evaluate, skip)
