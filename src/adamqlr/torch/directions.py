"""Where to go: functions from gradients to directions, with a memory they update.

A direction of your own is a function like these. It may keep tensors in `states`, a
dict for each parameter, and read its settings from `group`; whatever it adds to
`QLR`'s groups by name, checkpoints carry.
"""

# pyright: reportPrivateImportUsage=false
# The operations on lists of tensors have no public names; torch.optim uses these.

import functools
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch
from torch import Tensor

from adamqlr.rules import Truth


class Direction(Protocol):
    """Maps gradients to directions; the length and the sign do not matter."""

    def __call__(
        self,
        grads: list[Tensor],
        params: list[Tensor],
        states: list[dict[str, Any]],
        group: dict[str, Any],
    ) -> list[Tensor]:
        """One direction for each gradient, in tensors of their own."""
        ...


def adam(
    grads: list[Tensor],
    params: list[Tensor],
    states: list[dict[str, Any]],
    group: dict[str, Any],
    sound: Truth = True,
) -> list[Tensor]:
    r"""Adam's, $\hat m / (\sqrt{\hat v} + \epsilon)$, with `betas` and `eps`."""
    b1, grads = group["betas"][0], _if(sound, grads)
    factor = lambda t: 1 / (1 - b1**t)
    means, roots = _moments(grads, params, states, group, factor, sound)
    return list(torch._foreach_div(means, roots))


def nesterov_adam(
    grads: list[Tensor],
    params: list[Tensor],
    states: list[dict[str, Any]],
    group: dict[str, Any],
    sound: Truth = True,
) -> list[Tensor]:
    r"""Adam's with Nesterov's momentum, where the next step would see its mean.

    $$\left(\frac{b_1 m}{1 - b_1^{t + 1}} + \frac{(1 - b_1)\, g}{1 - b_1^t}\right) \Big/
      \left(\sqrt{\hat v} + \epsilon\right)$$

    References:
        Dozat, *Incorporating Nesterov Momentum into Adam*, 2016.
    """
    b1, grads = group["betas"][0], _if(sound, grads)
    own = lambda t: (1 - b1) / (1 - b1**t)
    both = lambda t: b1 / (1 - b1 ** (t + 1)) + own(t)
    means, roots = _moments(grads, params, states, group, both, sound)
    ahead = [
        torch.lerp(mean, grad, own(state["step"]) / both(state["step"]))
        for mean, grad, state in zip(means, grads, states, strict=True)
    ]
    torch._foreach_div_(ahead, roots)
    return ahead


def _moments(
    grads: list[Tensor],
    params: list[Tensor],
    states: list[dict[str, Any]],
    group: dict[str, Any],
    factor: Callable[[int], float],
    sound: Truth,
) -> tuple[list[Tensor], list[Tensor]]:
    r"""Adam's $m$, and $(\sqrt{\hat v} + \epsilon) / f_t$ in tensors of their own."""
    (b1, b2), eps = group["betas"], group["eps"]
    for state, param in zip(states, params, strict=True):
        if "exp_avg" not in state:
            state["exp_avg"] = torch.zeros_like(param)
            state["exp_avg_sq"] = torch.zeros_like(param)
            state["step"] = 0
        state["step"] += 1
    means = [state["exp_avg"] for state in states]
    squares = [state["exp_avg_sq"] for state in states]
    steps = [state["step"] for state in states]
    if sound is True:
        torch._foreach_lerp_(means, grads, 1 - b1)
    else:
        torch._foreach_lerp_(means, grads, _weights(sound, 1 - b1, means))
    _decay(sound, b2, squares)
    torch._foreach_addcmul_(squares, grads, grads, 1 - b2)
    roots = torch._foreach_sqrt(squares)
    torch._foreach_mul_(roots, [(1 - b2**t) ** -0.5 / factor(t) for t in steps])
    torch._foreach_add_(roots, [eps / factor(t) for t in steps])
    return means, list(roots)


def sgd(
    grads: list[Tensor],
    params: list[Tensor],
    states: list[dict[str, Any]],
    group: dict[str, Any],
    sound: Truth = True,
) -> list[Tensor]:
    r"""The gradient, or with `momentum` $\mu$ the running sum $b \gets \mu b + g$."""
    grads = _if(sound, grads)
    if group["momentum"] is None:
        return [grad.clone() for grad in grads]
    for state, param in zip(states, params, strict=True):
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(param)
    sums = [state["momentum_buffer"] for state in states]
    _decay(sound, group["momentum"], sums)
    torch._foreach_add_(sums, grads)
    return [total.clone() for total in sums]


def _if(sound: Truth, grads: list[Tensor]) -> list[Tensor]:
    """The gradients; zeros where they are not sound, of which nothing is to be kept."""
    if sound is True:
        return grads
    return [torch.where(sound, grad, 0) for grad in grads]


def _decay(sound: Truth, factor: float, sums: list[Tensor]) -> None:
    """Multiply what is remembered, if the gradients that are to be added are sound."""
    if sound is True:
        torch._foreach_mul_(sums, factor)
        return
    # In bfloat16 a factor near one would be one; what it lacks keeps its digits.
    for each, lacking in zip(sums, _weights(sound, factor - 1, sums), strict=True):
        each.addcmul_(each, lacking)


def _weights(sound: Tensor, weight: float, tensors: list[Tensor]) -> list[Tensor]:
    """The weight in the type of each tensor; zero if the gradients are not sound."""
    kinds = {tensor.dtype for tensor in tensors}
    weights = {kind: weight * sound.to(kind) for kind in kinds}
    return [weights[tensor.dtype] for tensor in tensors]


# These do the same to each number, whatever the shape of the tensor that it is in. They
# can be told by a tensor `sound` whether to remember gradients, which takes no wait.
ELEMENTWISE: tuple[Direction, ...] = (adam, nesterov_adam, sgd)


def remembering_if(sound: Truth, direction: Direction) -> Direction:
    """One of `ELEMENTWISE` whose memory stays as it is if gradients are not sound.

    Its count of steps goes on, since that is the host's; see `uncount`.
    """
    if sound is True:
        return direction
    # Only those in `ELEMENTWISE` have it, not every direction.
    return functools.partial(direction, sound=sound)  # pyright: ignore[reportCallIssue]


def uncount(states: Iterable[dict[str, Any]]) -> None:
    """Take back the count of a step whose gradients were not sound."""
    for state in states:
        if "step" in state:
            state["step"] -= 1


def count_in_numbers(states: Iterable[dict[str, Any]]) -> None:
    """Make numbers of the counts of a checkpoint of torch's Adam, which are tensors."""
    for state in states:
        if "step" in state:
            state["step"] = int(state["step"])


def direction_of(
    optimiser: Callable[..., torch.optim.Optimizer], **settings: Any
) -> Direction:
    r"""The way that another optimiser would go, $\theta - \theta'$ for its $\theta'$.

    It steps copies of the parameters; its memory, also what it keeps in its groups, is
    the rule's, so that checkpoints carry it. Only the direction counts, so `lr` is for
    rounding: the larger, the more digits the difference keeps.

    Args:
        optimiser: a class whose `step` needs no closure, such as `torch.optim.RMSprop`.
        **settings: its arguments; weight decay of its own enters the direction.

    Examples:
        >>> import torch
        >>> from adamqlr.torch import QLR, direction_of
        >>> model = torch.nn.Linear(1, 1)
        >>> rmsprop = direction_of(torch.optim.RMSprop, lr=1.0, alpha=0.9)
        >>> optimizer = QLR(model.parameters(), rmsprop)
    """

    def direction(
        grads: list[Tensor],
        params: list[Tensor],
        states: list[dict[str, Any]],
        group: dict[str, Any],
    ) -> list[Tensor]:
        copies = [param.detach().clone() for param in params]
        wrapped = {"params": copies, **group.get("wrapped", {})}
        inner = optimiser([wrapped], **settings)
        for copy, grad, state in zip(copies, grads, states, strict=True):
            # Some change gradients in place, of which the slope is still to be taken.
            copy.grad = grad.clone()
            # Some have their memory as soon as they are made.
            for name, value in inner.state[copy].items():
                state.setdefault(name, value)
            inner.state[copy] = state
        inner.step()
        kept = inner.param_groups[0].items()
        group["wrapped"] = {name: v for name, v in kept if name != "params"}
        torch._foreach_neg_(copies)
        torch._foreach_add_(copies, params)
        return copies

    return direction
