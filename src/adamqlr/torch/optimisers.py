"""The optimisers users call: a direction, and `QLR` around it."""

from typing import Any

from adamqlr.settings import PAPER, Rule, check_range
from adamqlr.torch.arguments import refuse_unknown_settings
from adamqlr.torch.curvature import Curvature, Fisher
from adamqlr.torch.directions import adam, nesterov_adam, sgd
from adamqlr.torch.qlr import QLR, Params


class AdamQLR(QLR):
    r"""Adam's direction, at the length that a quadratic model asks for.

    $$d = (b_1 \hat m + (1 - b_1)\, \hat g) / (\sqrt{\hat v} + \epsilon), \qquad
      \theta \gets \theta - \alpha d, \qquad
      \alpha \le \frac32\, \frac{|g^\top d|}{d^\top C d}$$

    The defaults want no tuning at any batch size; `Rule` says why. `PaperAdamQLR` is
    the paper's own.

    Args:
        params: tensors, or groups of them.
        lr: no learning rate: a factor on all steps, for schedulers; up to 0.1 refused.
        betas: decay of Adam's means of gradients and of their squares, in [0, 1).
        eps: $\epsilon > 0$, added to the root.
        **options: `curvature`, `rule`, `weight_decay`, `l2` and `clip`; see `QLR`.

    Examples:
        >>> import torch
        >>> from adamqlr.torch import AdamQLR, Gaussian, Objective
        >>> _ = torch.manual_seed(0)
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
        lr: float = 1.0,
        *,
        betas: tuple[float, float] = (0.9, 0.99),
        eps: float = 1e-8,
        **options: Any,
    ):
        refuse_unknown_settings(type(self).__name__, options, ("betas", "eps"))
        super().__init__(params, nesterov_adam, lr=lr, betas=betas, eps=eps, **options)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """See `QLR`."""
        group = self.defaults | param_group
        for number, beta in enumerate(group["betas"]):
            check_range(f"betas[{number}]", beta, 0, 1, open_high=True)
        check_range("eps", group["eps"], 0, open_low=True)
        super().add_param_group(param_group)


class PaperAdamQLR(QLR):
    r"""AdamQLR as published: exact curvature of each batch by itself, and damping.

    The defaults are the paper's AdamQLR (Untuned), which it runs with batches of 3,200;
    at small batches its steps grow without limit.

    Args:
        params: tensors, or groups of them.
        curvature: what $C$ is.
        rule: `dataclasses.replace(PAPER, ...)` for other dampings or rescaling.

    References:
        Clarke and Hernández-Lobato 2024, algorithm 2 and section 4.
    """

    def __init__(
        self,
        params: Params,
        *,
        curvature: Curvature = Fisher(),  # noqa: B008 - immutable
        rule: Rule = PAPER,
    ):
        own = {"betas": (0.9, 0.999), "eps": 1e-8}
        super().__init__(params, adam, curvature=curvature, rule=rule, **own)


class SGDQLR(QLR):
    r"""The gradient's own direction, at the length that a quadratic model asks for.

    Args:
        params: tensors, or groups of them.
        momentum: decay of a running sum of gradients, in [0, 1), that takes the
            gradient's place as direction; `None` for none.
        **options: `curvature`, `rule`, `lr`, `weight_decay`, `l2`, `clip`; see `QLR`.
    """

    def __init__(
        self, params: Params, *, momentum: float | None = None, **options: Any
    ):
        refuse_unknown_settings(type(self).__name__, options, ("momentum",))
        super().__init__(params, sgd, momentum=momentum, **options)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """See `QLR`."""
        momentum = (self.defaults | param_group)["momentum"]
        if momentum is not None:
            check_range("momentum", momentum, 0, 1, open_high=True)
        super().add_param_group(param_group)
