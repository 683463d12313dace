"""AdamW as most people train with it: a warm-up, then a cosine down to nothing."""

from typing import Any

import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, Float

from qlrstudy.algorithms.stepper import adam_batch, fixed_rate, optax_algorithm
from qlrstudy.spec import Settings, StepReport, Task

# The part of the run that AlgoPerf's baselines warm up for (Dahl et al. 2023).
WARMUP = 0.05


def cosine(count: ArrayLike, begin: ArrayLike, end: ArrayLike) -> Float[Array, ""]:
    """What is left of a rate at step `count`: one until `begin`, zero from `end` on.

    optax's own schedule wants to know the length of the run when it is compiled.
    """
    begin = jnp.asarray(begin)
    done = (count - begin) / jnp.maximum(end - begin, 1)
    return 0.5 * (1 + jnp.cos(jnp.pi * jnp.clip(done, 0, 1)))


def rate(settings: Settings, count: ArrayLike) -> Float[Array, ""]:
    """The learning rate of step `count`, from 0; zero once all steps are taken."""
    warmup = jnp.ceil(WARMUP * settings["steps"])
    decayed = cosine(count, warmup, settings["steps"])
    return settings["learning_rate"] * jnp.minimum((count + 1) / warmup, decayed)


def _build(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    return optax.adamw(
        lambda count: rate(settings, count), weight_decay=settings["weight_decay"]
    )


def _report(loss: Float[Array, ""], state: Any, settings: Settings) -> StepReport:
    taken = state[-1].count - 1
    return fixed_rate(loss, state, {"learning_rate": rate(settings, taken)})


# The rate and decay of torch.optim.AdamW.
ADAMW_COSINE = optax_algorithm(
    "adamw-cosine",
    "AdamW (cosine)",
    _build,
    batch=adam_batch,
    defaults={"learning_rate": 1e-3, "weight_decay": 1e-2},
    report=_report,
    scheduled=True,
)
