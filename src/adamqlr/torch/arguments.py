"""What users hand over, checked where they hand it over."""

import functools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from adamqlr.settings import check_range
from adamqlr.torch.objective import Accumulated, Closure, Objective
from adamqlr.torch.sharding import is_sharded


def check_group(group: dict[str, Any]) -> None:
    """Refuse a parameter group's own settings where they are out of range."""
    check_range("lr", group["lr"], 0)
    check_range("weight_decay", group["weight_decay"], 0)
    check_range("l2", group["l2"], 0)
    for param in _tensors(group["params"]):
        if param.is_complex():
            raise ValueError(
                f"parameters must be real, got {param.dtype}: train their real and "
                "imaginary parts, as torch.view_as_real shows them"
            )
    if any(param.dtype == torch.float16 for param in _tensors(group["params"])):
        raise ValueError(
            "parameters in float16 cannot be trained: squares of their gradients and "
            "eps=1e-8 vanish in it. Keep parameters in float32 and compute in half "
            "precision by autocast, or use bfloat16"
        )


def _tensors(params: Any) -> Iterable[Tensor]:
    """The tensors of a group, which may be one, or have names; torch checks others."""
    members = [params] if isinstance(params, Tensor) else params
    named = [member[1] if isinstance(member, tuple) else member for member in members]
    return [member for member in named if isinstance(member, Tensor)]


def refuse_learning_rate(name: str, groups: list[dict[str, Any]]) -> None:
    """Refuse what looks like another optimiser's learning rate at construction."""
    largest = max(float(group["lr"]) for group in groups)
    if largest <= 0.1:
        raise ValueError(
            f"lr={largest:g} is not a learning rate here: {name} chooses the length of "
            "each step itself, and lr multiplies it. Leave lr out; to insist on steps "
            f"{largest:g} times as long, set group['lr'] of param_groups afterwards"
        )


# What all optimisers take; each has some for its direction besides.
_COMMON = ("lr", "curvature", "rule", "weight_decay", "l2", "clip")


def refuse_unknown_settings(
    name: str, given: Iterable[str], own: tuple[str, ...]
) -> None:
    """Refuse settings that would change nothing, as a misspelt one or Adam's.

    Args:
        name: of the optimiser.
        given: names of settings.
        own: those that its direction has.
    """
    for setting in given:
        if setting == "learning_rate":
            raise TypeError(
                f"{name} has no learning rate: leave learning_rate out, it chooses the "
                "length of each step itself"
            )
        if setting not in (*_COMMON, *own):
            known = ", ".join((*_COMMON, *own))
            raise TypeError(
                f"{name} has no setting {setting}, leave it out: it has {known}"
            )


def refuse_peak_rate(name: str, groups: list[dict[str, Any]]) -> None:
    """Refuse the rates of `OneCycleLR` and `SWALR`, which they write to groups."""
    for setting in ("max_lr", "swa_lr"):
        rates = [float(group[setting]) for group in groups if setting in group]
        if len(rates) == len(groups) and max(rates) <= 0.1:
            raise ValueError(
                f"{setting}={max(rates):g} of a scheduler is not a learning rate here: "
                f"{name} chooses the length of each step itself, and lr multiplies it. "
                f"Use {setting}=1.0, or no scheduler; to insist on steps so much "
                "shorter, use LambdaLR"
            )


def refuse_nothing_to_train(name: str, params: list[Tensor]) -> None:
    """Refuse a step of an optimiser whose parameters are all frozen, empty, or none.

    Args:
        name: of the optimiser.
        params: those that require a gradient.
    """
    if params and not any(is_lazy(param) or param.numel() for param in params):
        raise ValueError(
            f"the parameters of {name} hold no number, the first has shape "
            f"{tuple(params[0].shape)}: look at the sizes that the model is made with"
        )
    if not params:
        raise ValueError(
            f"no parameter of {name} requires a gradient, so there is nothing to "
            "train: set requires_grad=True on some, or leave the step out"
        )


def refuse_parameters_elsewhere(model: nn.Module, params: list[Tensor]) -> None:
    """Refuse to train what a look at the model's outputs cannot see.

    Args:
        model: whose outputs the loss takes.
        params: those of the optimiser that have a gradient.
    """
    own = {id(param) for param in model.parameters()}
    others = [param for param in params if id(param) not in own]
    if others:
        raise ValueError(
            f"{len(others)} of {len(params)} parameters that the loss trains, the "
            f"first of shape {tuple(others[0].shape)}, are none of "
            f"{type(model).__name__}'s, so that a look along the step would not see "
            "them move: watch, or give Objective, one module that has all of them "
            "(nn.Sequential(encoder, decoder) say) and call that; or leave these to "
            "another optimiser, whose step() comes after this one"
        )


def checked_closure(
    closure: Objective | Accumulated | Callable[[], Tensor] | None,
) -> Objective | Accumulated | Closure:
    """Refuse a call without an objective, saying what to pass."""
    if closure is None:
        raise ValueError(
            "step lacks closure: call step(Objective(model, likelihood, inputs, "
            "targets)), which takes the gradient itself; or call watch(model, loss) "
            "once, before the loop, to keep loss.backward() and step()"
        )
    closure = _unbound(closure)
    if isinstance(closure, Objective | Accumulated):
        return closure
    if isinstance(closure, nn.Module | Tensor) or not callable(closure):
        raise TypeError(
            "closure must be an Objective, or a function that returns the loss, got "
            f"{type(closure).__name__}"
        )
    return Closure(closure)


def is_objective(closure: Any) -> bool:
    """Whether a step is to take the gradient itself, of what it is given."""
    return isinstance(_unbound(closure), Objective | Accumulated)


def _unbound(closure: Any) -> Any:
    # Lightning's wrapper binds the objective to its own hooks, as the last argument.
    if isinstance(closure, functools.partial) and closure.args:
        bound = closure.args[-1]
        return bound if isinstance(bound, Objective | Accumulated) else closure
    return closure


def refuse_scaled_gradients(optimiser: Any) -> None:
    """Refuse to be stepped by a `GradScaler`, which is the one to set `grad_scale`."""
    if "grad_scale" in vars(optimiser):
        # A scaler that catches this error may go on to its next step.
        del optimiser.grad_scale, optimiser.found_inf
        raise RuntimeError(
            f"GradScaler cannot step {type(optimiser).__name__}, which measures the "
            "loss more than once: use autocast with dtype=torch.bfloat16, which needs "
            "no scaler, and call optimizer.step(); steps that are not finite are "
            "refused anyway"
        )


def noted(param: Tensor) -> tuple[Tensor, int] | None:
    """A parameter and how often it was written to; a share of one does not count."""
    return None if is_sharded(param) else (param, param._version)


def warn_of_written_parameters(left: tuple[Tensor, int] | None) -> None:
    """Say that the average is not that of the weights which the model has now.

    Args:
        left: a parameter as the last step left it; see `noted`.
    """
    if left is not None and left[0]._version != left[1]:
        warnings.warn(
            "the parameters were written to since the last step, by load_state_dict "
            "say, and optimizer.eval() puts the average of the steps in their place: "
            "to evaluate what was loaded, leave eval() and averaged() out",
            stacklevel=3,
        )


def the_only_model(watched: nn.Module | None, met: list[nn.Module]) -> nn.Module:
    """The model whose parameters are trained, if one is known.

    Args:
        watched: what `watch` was told.
        met: models of the objectives that steps were made with.
    """
    models = met if watched is None else [watched]
    if len(models) != 1:
        known = "no model is known yet" if not models else f"{len(models)} are known"
        raise RuntimeError(
            "averaged(batches=...) measures the statistics of a model's batch norm, "
            f"and {known}: call optimizer.watch(model, loss) before, as also after "
            "loading a checkpoint, or make a step with an Objective of the model"
        )
    return models[0]


def refuse_step_from_average(in_place: bool) -> None:
    """Refuse a gradient taken while the average stood in for what is trained."""
    if in_place:
        raise RuntimeError(
            "optimizer.eval() has put the averaged parameters in place, and backward() "
            "was called on these: call optimizer.train() before the forward pass"
        )


def refuse_step_inside_forward() -> None:
    """Refuse a step within a wrapped model's forward pass, as Lightning's would be.

    The objective's own model then has no wrapper, so the step would be this process's.
    """
    if DistributedDataParallel._get_active_ddp_module() is not None:
        raise RuntimeError(
            "step inside the forward pass of a DistributedDataParallel (Lightning runs "
            "training_step in one) would not know of the other processes: train in one "
            "process, or in a plain loop pass Objective the wrapped model"
        )


def refuse_cached_parametrisations() -> None:
    """Refuse a step where parametrised weights are cached: no look would move them."""
    if parametrize._cache_enabled:
        raise RuntimeError(
            "step inside torch.nn.utils.parametrize.cached() would look at weights "
            "that were made before they are moved: leave cached() before step()"
        )
