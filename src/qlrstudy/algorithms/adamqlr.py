"""The paper's AdamQLR and its ablations, and the library's own optimisers.

The paper's variants are the library's `paper_adam_qlr`, which no change of the
library's defaults touches.
"""

import dataclasses
import hashlib
import inspect

import optax

from adamqlr.jax import (
    PAPER,
    Damping,
    Hessian,
    Probe,
    Rule,
    Subsampled,
    adam_qlr,
    evaluation_params,
    paper_adam_qlr,
    sgd_qlr,
)
from qlrstudy.algorithms.averaging import Averaged, polynomial_average
from qlrstudy.algorithms.stepper import (
    Carry,
    adam_batch,
    chosen_step,
    optax_algorithm,
    qlr_batch,
)
from qlrstudy.spec import LogUniform, ModelState, Params, Settings, Stepper, Task

# The paper's section 4: lambda_0 and 1 / omega_inc = omega_dec.
_UNTUNED = {"damping": 1e-3, "damping_decrease": 0.5, "damping_increase": 2.0}

_SEARCH = {
    "damping": LogUniform(1e-8, 1.0),
    "damping_decrease": LogUniform(0.5, 1.0),
    "damping_increase": LogUniform(1.0, 4.0),
}


# To be raised whenever the library's `adam_qlr()` changes what it does, and none of its
# defaults says so. 1 is the rule of the runs with a budget by the batch's size and no
# average, which have no version; 2 that of the root of the size, and the average;
# 3 that of Nesterov's momentum, always forward, and averaged statistics of batch norm;
# 4 goes beyond the model's minimum, and by less the less is left to learn;
# 5 lets a network that is worse than a constant go; 6 looks more rarely later on;
# 7 leaves iterates of such a network out of the average.
_METHOD = 7


def _version() -> str:
    """Of the library's rule: of what it does, and of its defaults."""
    parameters = inspect.signature(adam_qlr).parameters
    defaults = repr({name: known.default for name, known in parameters.items()})
    return f"{_METHOD}-{hashlib.sha256(defaults.encode()).hexdigest()[:8]}"


def _rule(settings: Settings) -> Rule:
    damping = Damping(
        settings["damping"], settings["damping_decrease"], settings["damping_increase"]
    )
    return dataclasses.replace(PAPER, damping=damping, rescale=settings["rescale"])


def _adamqlr(task: Task, settings: Settings) -> optax.GradientTransformation:
    return paper_adam_qlr(curvature=task.curvature, rule=_rule(settings))


def _hessian(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task
    return paper_adam_qlr(curvature=Hessian(signed=True), rule=_rule(settings))


def _undamped(task: Task, settings: Settings) -> optax.GradientTransformation:
    rule = dataclasses.replace(PAPER, damping=None, rescale=settings["rescale"])
    return paper_adam_qlr(curvature=task.curvature, rule=rule)


def _sgdqlr(task: Task, settings: Settings) -> optax.GradientTransformation:
    return sgd_qlr(curvature=task.curvature, rule=_rule(settings))


def _library(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task, settings
    return adam_qlr()


def _quarter(task: Task, settings: Settings) -> optax.GradientTransformation:
    del task, settings
    return adam_qlr(curvature=Subsampled(Probe(), 4))


def _evaluate_the_average(inner: Stepper) -> Stepper:
    """The library's average, with batch norm's statistics averaged alike."""
    averaging = polynomial_average(inner)

    def params(carried: Averaged) -> tuple[Params, ModelState]:
        carry: Carry = carried.carry
        average = evaluation_params(carry.optimiser_state, carry.params)
        return average, carried.average[1]

    return averaging._replace(params=params)


ADAMQLR_TUNED = optax_algorithm(
    "adamqlr-tuned",
    "AdamQLR-paper, tuned",
    _adamqlr,
    batch=qlr_batch,
    defaults=_UNTUNED | {"rescale": 1.0},
    search=_SEARCH,
    report=chosen_step,
)

ADAMQLR_UNTUNED = optax_algorithm(
    "adamqlr-untuned",
    "AdamQLR-paper, untuned",
    _adamqlr,
    batch=qlr_batch,
    defaults=_UNTUNED | {"rescale": 1.0},
    report=chosen_step,
)

ADAMQLR_HESSIAN = optax_algorithm(
    "adamqlr-hessian",
    "AdamQLR-paper, Hessian",
    _hessian,
    batch=qlr_batch,
    defaults=_UNTUNED | {"rescale": 1.0},
    search=_SEARCH,
    report=chosen_step,
)

ADAMQLR_UNDAMPED = optax_algorithm(
    "adamqlr-undamped",
    "AdamQLR-paper, undamped",
    _undamped,
    batch=qlr_batch,
    defaults={"rescale": 1.0},
    report=chosen_step,
)

SGDQLR = optax_algorithm(
    "sgdqlr",
    "SGD-QLR",
    _sgdqlr,
    batch=qlr_batch,
    defaults=_UNTUNED | {"rescale": 1.0},
    search=_SEARCH,
    report=chosen_step,
)

ADAMQLR = optax_algorithm(
    "adamqlr",
    "AdamQLR",
    _library,
    batch=adam_batch,
    defaults={},
    report=chosen_step,
    around=_evaluate_the_average,
    version=_version(),
)

ADAMQLR_QUARTER = optax_algorithm(
    "adamqlr-quarter",
    "AdamQLR (quarter probe)",
    _quarter,
    batch=adam_batch,
    defaults={},
    report=chosen_step,
    around=_evaluate_the_average,
    version=_version(),
)
