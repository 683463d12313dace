"""What a step reports, and what it hands to the next."""

from typing import NamedTuple

import optax
from jaxtyping import Array, Bool, Float, Int

from adamqlr.jax.memory import Seen


class StepInfo(NamedTuple):
    r"""What one step measured and did.

    Attributes:
        loss: $f(\theta)$ of the batch, before the step.
        trial_loss: the same batch's $f(\theta - \alpha d)$, or $f(\theta - h d)$ if it
            was seen by a probe at $h$; NaN where not evaluated.
        slope: $g^\top d$.
        curvature: $d^\top C d$.
        step_size: $\alpha$ of the update $-\alpha d$; zero if the step was refused.
        damping: $\lambda$ in this step's bend.
        reduction_ratio: $\rho$; NaN where not measured.
        predicted_change: $M(\alpha) - M(0)$.
        kl_divergence: $\alpha^2 d^\top C d / 2 \phi$: nats, if $C$ is the Fisher.
        limit: a `rules.Limit`, what decided the step's length.
        rejected: whether the step was refused because something was not finite.
        rejections: how many steps were refused so far.
    """

    loss: Float[Array, ""]
    trial_loss: Float[Array, ""]
    slope: Float[Array, ""]
    curvature: Float[Array, ""]
    step_size: Float[Array, ""]
    damping: Float[Array, ""]
    reduction_ratio: Float[Array, ""]
    predicted_change: Float[Array, ""]
    kl_divergence: Float[Array, ""]
    limit: Int[Array, ""]
    rejected: Bool[Array, ""]
    rejections: Int[Array, ""]


class QLRState(NamedTuple):
    """What a step hands to the next.

    Attributes:
        base: state of the transformation that makes the direction.
        damping: of the next step.
        reach: where a probe looks next: the last step's size, or half the former
            reach if that is more; a quarter of it after a step was refused.
        seen: what the batches so far have shown.
        steps: how many were done.
        info: on the last step.
    """

    base: optax.OptState
    damping: Float[Array, ""]
    reach: Float[Array, ""]
    seen: Seen
    steps: Int[Array, ""]
    info: StepInfo
