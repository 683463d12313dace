"""K-FAC as kfac-jax has it: adaptive, left alone, and with fixed rates.

kfac-jax compiles its own step, so the engine calls it from Python, once for each batch,
and with true shapes: it knows no weights that could leave out the filling of a batch.
"""

import functools
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from adamqlr.jax import Categorical, Gaussian
from qlrstudy.algorithms.stepper import accuracy, qlr_batch
from qlrstudy.spec import (
    Algorithm,
    Batch,
    Complement,
    LogUniform,
    ModelState,
    Params,
    Settings,
    Stepper,
    StepReport,
    Task,
)

# Parameters of this many entries or fewer, outside any layer, get their whole matrix.
_LARGEST_FULL_BLOCK = 16


class Carry(NamedTuple):
    """All that one step hands to the next."""

    params: Params
    model_state: ModelState
    optimiser_state: Any


def _kfac_jax() -> Any:
    """Import on first use: it brings much along, and sets a deprecated JAX flag.

    Raises:
        ValueError: it is not installed, which the extra `kfac` would do.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            import kfac_jax
    except ModuleNotFoundError as error:
        raise ValueError(
            f"the K-FAC algorithms need kfac-jax ({error}): "
            "pip install 'adamqlr[kfac]', which holds JAX below 0.9.2; "
            "or choose others with --algorithms"
        ) from error
    return kfac_jax


def _register(task: Task, outputs: Array, targets: Array) -> None:
    """Tell kfac-jax the likelihood, in the loss's own normalisation."""
    kfac = _kfac_jax()
    if isinstance(task.likelihood, Gaussian):
        # Its squared error is the whole square; ours is half.
        kfac.register_squared_error_loss(outputs, targets, weight=0.5)
    elif isinstance(task.likelihood, Categorical):
        # Each token of a sequence is a case of its own, and the loss is their mean.
        rows = outputs.reshape(-1, outputs.shape[-1])
        weight = len(outputs) / len(rows)
        kfac.register_softmax_cross_entropy_loss(
            rows, targets.reshape(-1), weight=weight
        )
    else:
        raise ValueError(
            f"K-FAC on task {task.name!r}: no registration for the likelihood "
            f"{type(task.likelihood).__name__}; use Gaussian or Categorical"
        )


def _generic_block(task: Task) -> Any:
    """The block of parameters that kfac-jax found no layer for.

    It takes a diagonal without a word. That is K-FAC no more for a layer's weights, so
    it is refused for them; embeddings, which are looked up and not multiplied, have no
    other. The two numbers of a task without layers get the matrix itself.
    """
    kfac = _kfac_jax()

    def make(*args: Any, **kwargs: Any) -> Any:
        full = kfac.NaiveFull(*args, **kwargs)
        if full.dim <= _LARGEST_FULL_BLOCK:
            return full
        block = kfac.NaiveDiagonal(*args, **kwargs)
        if any(len(shape) > 1 for shape in block.parameters_shapes):
            assert task.sequence_lengths, (
                f"K-FAC has no Kronecker block for the parameters of shapes "
                f"{block.parameters_shapes} in task {task.name!r}"
            )
        return block

    return make


@functools.cache
def _optimiser(task: Task, adaptive: bool) -> Any:
    """One optimiser for each task, so that another setting compiles nothing."""
    kfac = _kfac_jax()

    def loss_fn(
        params: Params, state: ModelState, batch: tuple[Array, Array]
    ) -> tuple[Array, tuple[ModelState, dict[str, Array]]]:
        inputs, targets = batch
        predict = task.layered or task.predict
        outputs, new_state = predict(params, inputs, state, training=True)
        _register(task, outputs, targets)
        right = accuracy(task, outputs, targets, jnp.ones(targets.shape))
        loss = jnp.mean(task.likelihood.loss(outputs, targets))
        return loss, (new_state, {"accuracy": right})

    return kfac.Optimizer(
        jax.value_and_grad(loss_fn, has_aux=True),
        l2_reg=0.0,
        value_func_has_state=True,
        value_func_has_aux=True,
        use_adaptive_learning_rate=adaptive,
        use_adaptive_momentum=adaptive,
        use_adaptive_damping=adaptive,
        # The state's damping is set in `init`: here it would be compiled in.
        initial_damping=1.0 if adaptive else None,
        min_damping=1e-8,
        damping_adaptation_interval=1,
        inverse_update_period=1,
        curvature_ema=0.95,
        num_burnin_steps=0,
        layer_tag_to_block_ctor={"generic": _generic_block(task)},
    )


def _bind(task: Task, settings: Settings, adaptive: bool) -> Stepper:
    optimiser = _optimiser(task, adaptive)
    # On the host: kfac-jax gives away the memory of what it is handed.
    rates = {name: np.float32(settings[name]) for name in settings}
    fixed = {} if adaptive else rates

    def init(
        params: Params, model_state: ModelState, batch: Batch, key: PRNGKeyArray
    ) -> Carry:
        rows = (batch.inputs, batch.targets)
        state = optimiser.init(params, key, rows, model_state)
        state.damping = jnp.asarray(rates["damping"])
        return Carry(params, model_state, state)

    def step(carry: Carry, batch: Batch, key: PRNGKeyArray) -> tuple[Carry, StepReport]:
        params, state, model_state, stats = optimiser.step(
            carry.params,
            carry.optimiser_state,
            key,
            batch=(batch.inputs, batch.targets),
            func_state=carry.model_state,
            # Any step but the first is like the others, and to ask which it is would
            # wait for the device; without burn-in the first is no exception either.
            global_step_int=1,
            **fixed,
        )
        report = StepReport(
            stats["loss"],
            stats["learning_rate"],
            stats["damping"],
            stats["rho"],
            stats["aux"]["accuracy"],
        )
        return Carry(params, model_state, state), report

    return Stepper(init, step, lambda carry: (carry.params, carry.model_state))


def _adaptive(task: Task, settings: Settings) -> Stepper:
    return _bind(task, settings, adaptive=True)


def _unadaptive(task: Task, settings: Settings) -> Stepper:
    return _bind(task, settings, adaptive=False)


_DAMPING = LogUniform(1e-8, 1.0)

KFAC = Algorithm(
    "kfac",
    "K-FAC",
    _adaptive,
    defaults={"damping": 1.0},
    search={"damping": _DAMPING},
    batch=qlr_batch,
    traceable=False,
    check=_kfac_jax,
)

KFAC_UNTUNED = Algorithm(
    "kfac-untuned",
    "K-FAC (Untuned)",
    _adaptive,
    defaults={"damping": 1.0},
    search={},
    batch=qlr_batch,
    traceable=False,
    check=_kfac_jax,
)

KFAC_UNADAPTIVE = Algorithm(
    "kfac-unadaptive",
    "K-FAC (Unadaptive)",
    _unadaptive,
    defaults={"learning_rate": 1e-2, "momentum": 0.9, "damping": 1.0},
    search={
        "learning_rate": LogUniform(1e-6, 1.0),
        "momentum": Complement(1e-4, 0.3),
        "damping": _DAMPING,
    },
    batch=qlr_batch,
    traceable=False,
    check=_kfac_jax,
)
