"""Adam, with its learning rate tuned, left alone, or tuned along with its epsilon.

And with its iterates averaged, as AdamQLR's are, at a learning rate that is tuned.
"""

import optax

from qlrstudy.algorithms.averaging import polynomial_average
from qlrstudy.algorithms.stepper import adam_batch, optax_algorithm
from qlrstudy.spec import LogUniform, Settings, Task

_LEARNING_RATE = LogUniform(1e-6, 1.0)


def _adam(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    return optax.adam(settings["learning_rate"])


def _adam_epsilon(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    return optax.adam(settings["learning_rate"], eps=settings["epsilon"])


ADAM = optax_algorithm(
    "adam",
    "Adam",
    _adam,
    batch=adam_batch,
    defaults={"learning_rate": 1e-3},
    search={"learning_rate": _LEARNING_RATE},
)

ADAM_UNTUNED = optax_algorithm(
    "adam-untuned",
    "Adam (Untuned)",
    _adam,
    batch=adam_batch,
    defaults={"learning_rate": 1e-3},
)

ADAM_TUNED_EPSILON = optax_algorithm(
    "adam-tuned-epsilon",
    "Adam (Tuned ε)",
    _adam_epsilon,
    batch=adam_batch,
    defaults={"learning_rate": 1e-3, "epsilon": 1e-8},
    search={"learning_rate": _LEARNING_RATE, "epsilon": LogUniform(1e-8, 1.0)},
)

ADAM_AVERAGE = optax_algorithm(
    "adam-average",
    "Adam (average)",
    _adam,
    batch=adam_batch,
    defaults={"learning_rate": 1e-3},
    search={"learning_rate": _LEARNING_RATE},
    around=polynomial_average,
)
