"""The optimisers users call: a direction, and `qlr` around it."""

from collections.abc import Callable

import optax
from jaxtyping import PyTree

from adamqlr.jax.curvature import Curvature, Fisher, Probe
from adamqlr.jax.transform import qlr
from adamqlr.settings import PAPER, Rule, check_range

Mask = PyTree[bool] | Callable[[optax.Params], PyTree[bool]] | None


def adam_qlr(
    learning_rate: None = None,
    *,
    b1: float = 0.9,
    b2: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    mask: Mask = None,
    curvature: Curvature = Probe(),  # noqa: B008 - immutable
    rule: Rule = Rule(),  # noqa: B008 - immutable
) -> optax.GradientTransformationExtraArgs:
    r"""Adam's direction, at the length that a quadratic model asks for.

    $$d = (b_1 \hat m + (1 - b_1)\, \hat g) / (\sqrt{\hat v} + \epsilon), \qquad
      \theta \gets \theta - \alpha d, \qquad
      \alpha \le \frac32\, \frac{|g^\top d|}{d^\top C d}$$

    The defaults want no tuning at any batch size; `Rule` says why. `paper_adam_qlr` is
    the paper's own.

    Args:
        learning_rate: there is none; any but `None` is refused.
        b1: decay of Adam's mean of gradients, in [0, 1).
        b2: decay of Adam's mean of squared gradients, in [0, 1).
        eps: $\epsilon > 0$, added to the root.
        weight_decay: adds so much of the parameters to the direction, as AdamW does:
            $d \gets d + w \theta$. Slope, curvature and ratio are the loss's own, along
            the whole of it. (`optax.add_decayed_weights` before it in a chain is L2.)
        mask: which parameters decay, as `optax.adamw` has it: a tree of truth values,
            or a function from parameters to one; `None` for all.
        curvature: what $C$ is, and how $d^\top C d$ is measured.
        rule: how the length is chosen; see `Rule`.

    Returns:
        A transformation whose state is a `QLRState`; its `update` needs `value`, `grad`
        and `value_fn`, which `train_step` gives it.

    Examples:
        >>> import jax.numpy as jnp
        >>> from adamqlr.jax import Gaussian, Objective, adam_qlr, train_step
        >>> x = jnp.linspace(-1, 1, 8)[:, None]
        >>> objective = Objective(lambda w, x: x * w, Gaussian(), x, 3 * x)
        >>> optimiser, params = adam_qlr(), jnp.zeros(1)
        >>> state = optimiser.init(params)
        >>> for _ in range(100):
        ...     params, state, *_ = train_step(optimiser, objective, params, state)
        >>> bool(abs(params[0] - 3) < 1e-3)
        True
    """
    if learning_rate is not None:
        raise TypeError(
            f"adam_qlr has no learning rate, got {learning_rate!r}: leave it out, the "
            "length of each step is chosen by itself"
        )
    check_range("b1", b1, 0, 1, open_high=True)
    check_range("b2", b2, 0, 1, open_high=True)
    check_range("eps", eps, 0, open_low=True)
    check_range("weight_decay", weight_decay, 0)
    direction = optax.scale_by_adam(b1, b2, eps, nesterov=True)
    if not isinstance(weight_decay, float) or weight_decay != 0:
        decay = optax.add_decayed_weights(weight_decay, mask)
        direction = optax.chain(direction, decay)
    return qlr(direction, curvature=curvature, rule=rule)


def paper_adam_qlr(
    *,
    curvature: Curvature = Fisher(),  # noqa: B008 - immutable
    rule: Rule = PAPER,
) -> optax.GradientTransformationExtraArgs:
    r"""AdamQLR as published: exact curvature of each batch by itself, and damping.

    The defaults are the paper's AdamQLR (Untuned), which it runs with batches of 3,200;
    at small batches its steps grow without limit.

    Args:
        curvature: what $C$ is.
        rule: `dataclasses.replace(PAPER, ...)` for other dampings or rescaling.

    References:
        Clarke and Hernández-Lobato 2024, algorithm 2 and section 4.
    """
    return qlr(optax.scale_by_adam(), curvature=curvature, rule=rule)


def sgd_qlr(
    *,
    momentum: float | None = None,
    curvature: Curvature = Probe(),  # noqa: B008 - immutable
    rule: Rule = Rule(),  # noqa: B008 - immutable
) -> optax.GradientTransformationExtraArgs:
    r"""The gradient's own direction, at the length that a quadratic model asks for.

    Args:
        momentum: decay of a running sum of gradients, in [0, 1), that takes the
            gradient's place as direction; `None` for none.
        curvature: what $C$ is, and how $d^\top C d$ is measured.
        rule: how the length is chosen; see `Rule`.

    Returns:
        A transformation like that of `adam_qlr`.
    """
    if momentum is None:
        return qlr(optax.identity(), curvature=curvature, rule=rule)
    check_range("momentum", momentum, 0, 1, open_high=True)
    return qlr(optax.trace(momentum), curvature=curvature, rule=rule)
