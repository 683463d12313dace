"""Schedule-free AdamW: an average of the iterates takes the place of a schedule."""

import optax

from qlrstudy.algorithms.averaging import polynomial_average
from qlrstudy.algorithms.stepper import Carry, adam_batch, optax_algorithm
from qlrstudy.spec import ModelState, Params, Settings, Stepper, Task


def _build(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    return optax.contrib.schedule_free_adamw(settings["learning_rate"])


def _evaluate_the_average(inner: Stepper) -> Stepper:
    def params(carry: Carry) -> tuple[Params, ModelState]:
        average = optax.contrib.schedule_free_eval_params(
            carry.optimiser_state, carry.params
        )
        return average, carry.model_state

    return inner._replace(params=params)


# Its authors' defaults, whose weight decay is none.
SCHEDULE_FREE_ADAM = optax_algorithm(
    "schedule-free-adam",
    "Schedule-free Adam",
    _build,
    batch=adam_batch,
    defaults={"learning_rate": 2.5e-3},
    around=_evaluate_the_average,
)

# The points where its gradients are taken, averaged as AdamQLR's are.
SCHEDULE_FREE_AVERAGE = optax_algorithm(
    "schedule-free-average",
    "Schedule-free Adam (average)",
    _build,
    batch=adam_batch,
    defaults={"learning_rate": 2.5e-3},
    around=polynomial_average,
)
