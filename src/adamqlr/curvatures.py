r"""The curvatures with their settings, documented once. No framework.

A front end extends each by how it looks along a direction.
"""

import dataclasses
import math
from typing import Any

from adamqlr.measurements import Look
from adamqlr.rules import Scalar, maximum, where
from adamqlr.settings import Rule, check_range

# Of a parameter, where nothing else tells how far to look: some of them are zero.
LEAST_SIZE = 0.01

# How far a probe may move the parameters, over their length.
LONGEST = 0.1


def probe_distance(reach: Scalar, size: Scalar, epsilon: float) -> Scalar:
    """Where a probe looks, out of where the last step went.

    Args:
        reach: of that step.
        size: how many times the direction goes into the parameters.
        epsilon: their rounding. Forward differences lose half their digits at best, at
            its root.
    """
    longest = where(size == 0, math.inf, LONGEST * size)
    near = where(reach < longest, reach, longest)
    return maximum(near, epsilon**0.5 * size)


@dataclasses.dataclass(frozen=True)
class Probe:
    r"""Curvature and loss from one evaluation of the model at a distance.

    The outputs' difference $(z(\theta) - z(\theta - h d)) / h$ stands for $Jd$, and the
    loss of the same evaluation tells how well the model predicts. One forward pass
    instead of three, no forward-mode derivative, so every model can be probed.

    $h$ is the last step's size, so that the probe sees what a step of that size does,
    but no less than where the difference drowns in the parameters' rounding:
    $h |d| \ge \sqrt{\epsilon}\, |\theta|$, with $\epsilon$ of the parameters' type, or
    of torch's autocast, and no more than a tenth of $|\theta|$, beyond which networks
    of several layers bend otherwise. The first is where the slope promises a hundredth
    of the loss, in all units the same; where the least loss is not known, it is
    $\sqrt{\epsilon}\, (|\theta| + 0.01 \sqrt{P})$ away, with $P$ parameters.

    Args:
        metric: measures the change of the outputs: `Fisher()`, which is the default, or
            `GaussNewton()`.
    """

    metric: Any


@dataclasses.dataclass(frozen=True)
class LossProbe:
    r"""Curvature of any loss, from its value at a distance.

    $$\frac{2}{h^2} \left| f(\theta - h d) - f(\theta) + h\, g^\top d \right|$$

    One more evaluation of the loss where `Hessian` takes six. A loss by itself says
    nothing of predictions, so that there is no budget in nats (`rule=ANY_LOSS`);
    instead no step goes further than a part of the parameters' own length.

    Args:
        limit: of $|\alpha d|$, in units of $|\theta| + 0.01 \sqrt{P}$ with $P$ the
            number of parameters.
    """

    limit: float = 0.003

    def __post_init__(self) -> None:
        check_range("limit", self.limit, 0, open_low=True)


@dataclasses.dataclass(frozen=True)
class Hessian:
    r"""Second derivative of the loss itself, $d^\top \nabla^2 f\, d$.

    With `rule=ANY_LOSS` it takes any function of the parameters, and in torch any
    closure, that returns a loss.

    Args:
        signed: keep negative curvature, as the paper does. Its step then *climbs*
            wherever damping does not outweigh it. By default the magnitude is taken,
            so that negative curvature bounds a step as positive curvature does; the
            damping is added to it, which keeps the bend away from zero.
    """

    signed: bool = False


@dataclasses.dataclass(frozen=True)
class Subsampled:
    """Another curvature, measured on each `every`-th example of the batch only.

    Args:
        curvature: the one to measure.
        every: 4 means a quarter of the batch, at a quarter of the cost.
        least: examples that a part must have, for a handful says little of the others.
            A batch with fewer than `every * least` is cut into fewer parts, one with
            fewer than `2 * least` into none. Examples are what the loss is a mean over
            (tokens, say), of all micro-batches of one process.
    """

    curvature: Any
    every: int
    least: int = 16

    def __post_init__(self) -> None:
        check_range("every", self.every, 1)
        check_range("least", self.least, 1)
        refuse_no_curvature("Subsampled.curvature", self.curvature)
        if isinstance(self.curvature, LossProbe):
            raise ValueError(
                "Subsampled cannot cut LossProbe, whose curvature is the change of the "
                "whole batch's loss: use it by itself, or Probe() on an Objective"
            )

    def stride(self, examples: int) -> int:
        """Of how many examples one is looked at, in a batch of so many."""
        return max(1, min(self.every, examples // self.least))

    def without_change(self, look: Look) -> Look:
        """A look at a part, without the change of its loss: it is not the batch's."""
        if look.trial is None:
            return look
        return look._replace(trial=look.trial._replace(change=None))


def refuse_no_curvature(name: str, value: Any) -> None:
    """Refuse what cannot look along a direction, a class without its brackets say."""
    if isinstance(value, type):
        raise TypeError(
            f"{name} must be a value, got a class: write {value.__name__}()"
        )
    if not callable(getattr(value, "look", None)):
        raise TypeError(
            f"{name} must have a method look, as Probe() has, got {value!r}"
        )


def check_pair(curvature: Any, rule: Any) -> None:
    """Refuse a curvature and a rule that are none, or do not go together."""
    refuse_no_curvature("curvature", curvature)
    if not isinstance(rule, Rule):
        raise TypeError(
            f"rule must be a Rule, got {rule!r}: a budget, say, is Rule(budget=...)"
        )
    if isinstance(curvature, LossProbe) and rule.look_every != 1:
        raise ValueError(
            f"LossProbe() limits the steps that look, and look_every={rule.look_every} "
            "leaves others unlimited: give rule=ANY_LOSS, or look_every=1"
        )
