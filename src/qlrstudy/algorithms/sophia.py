"""Sophia: momentum over a running estimate of the Hessian's diagonal, clipped."""

from typing import Any

import optax

from adamqlr.jax import Objective
from qlrstudy.algorithms.stepper import adam_batch, optax_algorithm
from qlrstudy.spec import Settings, Task


def _build(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    rule = optax.contrib.sophia(
        settings["learning_rate"], weight_decay=settings["weight_decay"]
    )

    def update(
        updates: Any,
        state: Any,
        params: Any = None,
        *,
        value_fn: Objective | None = None,
        **_: Any,
    ) -> tuple[Any, Any]:
        return rule.update(updates, state, params, obj_fn=value_fn)

    return optax.GradientTransformationExtraArgs(rule.init, update)


# Sophia-H, whose constants optax has from the paper; rate and decay are the authors'.
SOPHIA = optax_algorithm(
    "sophia",
    "Sophia",
    _build,
    batch=adam_batch,
    defaults={"learning_rate": 1e-4, "weight_decay": 0.1},
)
