"""The optimisers users call: a direction, and `qlr` around it."""

import optax

from adamqlr import rules
from adamqlr.jax.curvature import Curvature, Fisher, Probe
from adamqlr.jax.transform import qlr


def adamqlr(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
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
    r"""Adam's direction, at the length that a damped quadratic model asks for.

    $$d = \hat m / (\sqrt{\hat v} + \epsilon), \qquad
      \theta \gets \theta - \frac{g^\top d}{d^\top (C + \lambda I)\, d}\, d$$

    The defaults want no tuning at any batch size: one more forward pass at a distance
    measures the curvature, its running mean holds steps back that a lucky batch would
    let through, and no step moves the predictions further than the examples seen so far
    allow. `paper_adamqlr` is the paper's own.

    Args:
        b1: decay of Adam's mean of gradients, in [0, 1).
        b2: decay of Adam's mean of squared gradients, in [0, 1).
        eps: $\epsilon > 0$, added to the root.
        curvature: see `qlr`, as the settings below.
        damping: initial $\lambda$, or `None`.
        damping_decrease: $\omega_\mathrm{dec}$.
        damping_increase: $\omega_\mathrm{inc}$.
        damping_floor: smallest $\lambda$.
        rescale: factor on $\alpha$.
        max_step_size: limit on $|\alpha|$, or `None`.
        kl_budget: limit on the divergence that each example may cause, at the first
            one, or `None`.
        kl_decay: power of the examples seen with which it falls.
        curvature_decay: of the curvature's running mean, or `None`.
        ratio_every: steps from one reduction ratio to the next.

    Returns:
        A transformation whose state is a `QLRState`; its `update` needs `value`, `grad`
        and `value_fn`.

    Example:
        >>> import jax, jax.numpy as jnp, optax
        >>> from adamqlr.jax import Gaussian, Objective, adamqlr
        >>> x = jnp.linspace(-1, 1, 8)[:, None]
        >>> objective = Objective(lambda w, x: x * w, Gaussian(), x, 3 * x)
        >>> optimiser, params = adamqlr(), jnp.zeros(1)
        >>> state = optimiser.init(params)
        >>> for _ in range(50):
        ...     value, grad = jax.value_and_grad(objective)(params)
        ...     updates, state = optimiser.update(
        ...         grad, state, params, value=value, grad=grad, value_fn=objective)
        ...     params = optax.apply_updates(params, updates)
        >>> bool(abs(params[0] - 3) < 1e-3)
        True
    """
    rules.check_range("b1", b1, 0, 1, open_high=True)
    rules.check_range("b2", b2, 0, 1, open_high=True)
    rules.check_range("eps", eps, 0, open_low=True)
    return qlr(
        optax.scale_by_adam(b1, b2, eps),
        curvature=curvature,
        damping=damping,
        damping_decrease=damping_decrease,
        damping_increase=damping_increase,
        damping_floor=damping_floor,
        rescale=rescale,
        max_step_size=max_step_size,
        kl_budget=kl_budget,
        kl_decay=kl_decay,
        curvature_decay=curvature_decay,
        ratio_every=ratio_every,
    )


def paper_adamqlr(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    *,
    curvature: Curvature = Fisher(),  # noqa: B008 - immutable
    damping: float | None = 1e-3,
    damping_decrease: float = 0.5,
    damping_increase: float = 2.0,
    rescale: float = 1.0,
) -> optax.GradientTransformationExtraArgs:
    r"""AdamQLR as published: exact curvature of each batch by itself, and damping.

    The defaults are the paper's AdamQLR (Untuned), which it runs with batches of 3,200;
    at small batches its steps grow without limit.

    Args:
        b1: see `adamqlr`, as the rest.
        b2: decay of Adam's mean of squared gradients.
        eps: added to the root.
        curvature: what $C$ is.
        damping: initial $\lambda$, or `None`.
        damping_decrease: $\omega_\mathrm{dec}$.
        damping_increase: $\omega_\mathrm{inc}$.
        rescale: $k$, multiplies $\alpha$.

    References:
        Clarke and Hernández-Lobato 2024, algorithm 2 and section 4.
    """
    return adamqlr(
        b1,
        b2,
        eps,
        curvature=curvature,
        damping=damping,
        damping_decrease=damping_decrease,
        damping_increase=damping_increase,
        damping_floor=1e-8,
        rescale=rescale,
        max_step_size=None,
        kl_budget=None,
        curvature_decay=None,
        ratio_every=1,
    )


def sgdqlr(
    momentum: float | None = None,
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
    r"""The gradient's own direction, at the length that a quadratic model asks for.

    Args:
        momentum: decay of a running sum of gradients, in [0, 1), that takes the
            gradient's place as direction; `None` for none.
        curvature: see `qlr`, as the settings below.
        damping: initial $\lambda$, or `None`.
        damping_decrease: $\omega_\mathrm{dec}$.
        damping_increase: $\omega_\mathrm{inc}$.
        damping_floor: smallest $\lambda$.
        rescale: factor on $\alpha$.
        max_step_size: limit on $|\alpha|$, or `None`.
        kl_budget: limit on the divergence that each example may cause, at the first
            one, or `None`.
        kl_decay: power of the examples seen with which it falls.
        curvature_decay: of the curvature's running mean, or `None`.
        ratio_every: steps from one reduction ratio to the next.

    Returns:
        A transformation whose state is a `QLRState`; its `update` needs `value`, `grad`
        and `value_fn`.
    """
    if momentum is not None:
        rules.check_range("momentum", momentum, 0, 1, open_high=True)
    return qlr(
        optax.identity() if momentum is None else optax.trace(momentum),
        curvature=curvature,
        damping=damping,
        damping_decrease=damping_decrease,
        damping_increase=damping_increase,
        damping_floor=damping_floor,
        rescale=rescale,
        max_step_size=max_step_size,
        kl_budget=kl_budget,
        kl_decay=kl_decay,
        curvature_decay=curvature_decay,
        ratio_every=ratio_every,
    )
