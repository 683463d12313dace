"""The optimisers users call: a direction, and `QLR` around it."""

from typing import Any

from adamqlr import rules
from adamqlr.torch.curvature import Curvature, Fisher, Probe
from adamqlr.torch.directions import adam, sgd
from adamqlr.torch.rule import QLR, Hook, Params


class AdamQLR(QLR):
    r"""Adam's direction, at the length that a damped quadratic model asks for.

    $$d = \hat m / (\sqrt{\hat v} + \epsilon), \qquad
      \theta \gets \theta - \frac{g^\top d}{d^\top (C + \lambda I)\, d}\, d$$

    The defaults want no tuning at any batch size: one more forward pass at a distance
    measures the curvature, its running mean holds steps back that a lucky batch would
    let through, and no step moves the predictions further than the examples seen so far
    allow. `PaperAdamQLR` is the paper's own.

    Args:
        params: tensors, or groups of them.
        betas: decay of Adam's means of gradients and of their squares, in [0, 1).
        eps: $\epsilon > 0$, added to the root.
        curvature: see `QLR`, as the settings below.
        lr: factor on $\alpha$, for schedulers.
        weight_decay: added to the gradients, as a multiple of the parameters.
        damping: initial $\lambda$, or `None`.
        damping_decrease: $\omega_\mathrm{dec}$.
        damping_increase: $\omega_\mathrm{inc}$.
        damping_floor: smallest $\lambda$.
        rescale: factor on $\alpha$, before its limits.
        max_step_size: limit on $|\alpha|$, or `None`.
        kl_budget: limit on the divergence that each example may cause, at the first
            one, or `None`.
        kl_decay: power of the examples seen with which it falls.
        curvature_decay: of the curvature's running mean, or `None`.
        ratio_every: steps from one reduction ratio to the next.
        clip: called with the parameters, to change their `grad`; or `None`.

    Example:
        >>> import torch
        >>> from adamqlr.torch import AdamQLR, Gaussian, Objective
        >>> model, x = torch.nn.Linear(1, 1), torch.linspace(-1, 1, 8)[:, None]
        >>> optimizer = AdamQLR(model.parameters())
        >>> for _ in range(20):
        ...     loss = optimizer.step(Objective(model, Gaussian(), x, 3 * x))
        >>> bool(loss < 0.1)
        True
    """

    def __init__(
        self,
        params: Params,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        curvature: Curvature = Probe(),  # noqa: B008 - immutable
        lr: float = 1.0,
        weight_decay: float = 0.0,
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
        clip: Hook | None = None,
    ):
        super().__init__(
            params,
            adam,
            curvature=curvature,
            lr=lr,
            weight_decay=weight_decay,
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
            clip=clip,
            betas=betas,
            eps=eps,
        )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """See `QLR`."""
        b1, b2 = param_group.get("betas", self.defaults["betas"])
        rules.check_range("betas[0]", b1, 0, 1, open_high=True)
        rules.check_range("betas[1]", b2, 0, 1, open_high=True)
        eps = param_group.get("eps", self.defaults["eps"])
        rules.check_range("eps", eps, 0, open_low=True)
        super().add_param_group(param_group)


class PaperAdamQLR(AdamQLR):
    r"""AdamQLR as published: exact curvature of each batch by itself, and damping.

    The defaults are the paper's AdamQLR (Untuned), which it runs with batches of 3,200;
    at small batches its steps grow without limit.

    Args:
        params: see `AdamQLR`, as the rest.
        betas: decay of Adam's means of gradients and of their squares.
        eps: added to the root.
        curvature: what $C$ is.
        damping: initial $\lambda$, or `None`.
        damping_decrease: $\omega_\mathrm{dec}$.
        damping_increase: $\omega_\mathrm{inc}$.
        rescale: $k$, multiplies $\alpha$.

    References:
        Clarke and Hernández-Lobato 2024, algorithm 2 and section 4.
    """

    def __init__(
        self,
        params: Params,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        *,
        curvature: Curvature = Fisher(),  # noqa: B008 - immutable
        damping: float | None = 1e-3,
        damping_decrease: float = 0.5,
        damping_increase: float = 2.0,
        rescale: float = 1.0,
    ):
        super().__init__(
            params,
            betas,
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


class SGDQLR(QLR):
    r"""The gradient's own direction, at the length that a quadratic model asks for.

    Args:
        params: tensors, or groups of them.
        momentum: decay of a running sum of gradients, in [0, 1), that takes the
            gradient's place as direction; `None` for none.
        curvature: see `QLR`, as the settings below.
        lr: factor on $\alpha$, for schedulers.
        weight_decay: added to the gradients, as a multiple of the parameters.
        damping: initial $\lambda$, or `None`.
        damping_decrease: $\omega_\mathrm{dec}$.
        damping_increase: $\omega_\mathrm{inc}$.
        damping_floor: smallest $\lambda$.
        rescale: factor on $\alpha$, before its limits.
        max_step_size: limit on $|\alpha|$, or `None`.
        kl_budget: limit on the divergence that each example may cause, at the first
            one, or `None`.
        kl_decay: power of the examples seen with which it falls.
        curvature_decay: of the curvature's running mean, or `None`.
        ratio_every: steps from one reduction ratio to the next.
        clip: called with the parameters, to change their `grad`; or `None`.
    """

    def __init__(
        self,
        params: Params,
        momentum: float | None = None,
        *,
        curvature: Curvature = Probe(),  # noqa: B008 - immutable
        lr: float = 1.0,
        weight_decay: float = 0.0,
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
        clip: Hook | None = None,
    ):
        super().__init__(
            params,
            sgd,
            curvature=curvature,
            lr=lr,
            weight_decay=weight_decay,
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
            clip=clip,
            momentum=momentum,
        )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """See `QLR`."""
        momentum = param_group.get("momentum", self.defaults["momentum"])
        if momentum is not None:
            rules.check_range("momentum", momentum, 0, 1, open_high=True)
        super().add_param_group(param_group)
