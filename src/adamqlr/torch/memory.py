"""What the batches so far have shown, and how far it lets the next step go.

Scalars are float64 tensors on the CPU, as in `step`; settings become such too, since
a Python float times a truth value would come in float32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from adamqlr import rules
from adamqlr.torch.likelihoods import Scale


class Seen(NamedTuple):
    r"""What all batches so far have shown.

    Attributes:
        curvature: running mean of $d^\top C d / d^\top d$.
        examples: how many there were, as far as a budget counts them.
        mean: of all targets, where a budget needs the scale that the likelihood
            leaves open; zero elsewhere, as the next two.
        variance: of all targets.
        error: running mean of their square distance to the predictions.
    """

    curvature: Tensor
    examples: Tensor
    mean: Tensor
    variance: Tensor
    error: Tensor

    @classmethod
    def recalled(cls, group: dict[str, Any]) -> Seen:
        """From a parameter group, where it outlives the step."""
        return cls(*[scalar(group[name]) for name in SEEN])

    def numbers(self) -> dict[str, float]:
        """For a parameter group: plain numbers, which any checkpoint may hold."""
        return {name: float(value) for name, value in zip(SEEN, self, strict=True)}

    def with_curvature(
        self, curvature: Tensor, square_norm: Tensor, decay: float
    ) -> Seen:
        r"""With one more $d^\top C d$ along a $d$ of such a $d^\top d$."""
        steepness = curvature / (square_norm + (square_norm == 0))
        mean = rules.running_mean(self.curvature, steepness, scalar(decay))
        return self._replace(curvature=mean)

    def with_batch(self, examples: float, scale: Scale | None, decay: float) -> Seen:
        """With one more batch of so many examples, and their targets' scale."""
        seen = self._replace(examples=self.examples + examples)
        if scale is None:
            return seen
        share = examples / seen.examples
        variance = rules.pooled_variance(
            self.mean, self.variance, scale.mean, scale.variance, share
        )
        return seen._replace(
            mean=self.mean + share * (scale.mean - self.mean),
            variance=variance,
            error=rules.running_mean(self.error, scale.error, scalar(decay)),
        )


# What `Seen` is called in a parameter group.
SEEN = tuple(f"seen_{name}" for name in Seen._fields)


class Budget(NamedTuple):
    """What a step may cost.

    Attributes:
        dispersion: what a nat is in units of the loss.
        allowed: most divergence of a step, in units of the loss; `None` for no limit.
        least: the loss below which no step can go; `None` if that is not known.
    """

    dispersion: Tensor
    allowed: Tensor | None
    least: float | Tensor | None


def budgeted(
    settings: dict[str, Any],
    seen: Seen,
    examples: float,
    scale: Scale | None,
    least: float | Tensor | None,
) -> tuple[Seen, Budget]:
    """Count a batch, and tell what the examples seen so far allow its step.

    Args:
        settings: `kl_budget`, a number here, `kl_decay` and `curvature_decay`.
        seen: of the former batches.
        examples: of this batch.
        scale: of its targets, or `None` where the loss is in nats.
        least: loss that its targets allow, or `None`.
    """
    seen = seen.with_batch(examples, scale, settings["curvature_decay"] or 0.0)
    dispersion = scalar(1.0)
    if scale is not None:
        dispersion = rules.dispersion(seen.variance, seen.error)
    allowance = rules.kl_allowance(
        settings["kl_budget"], settings["kl_decay"], seen.examples
    )
    return seen, Budget(dispersion, allowance * examples * dispersion, least)


def scalar(number: float) -> Tensor:
    """A number as the method's scalars are."""
    return torch.tensor(number, dtype=torch.float64)
