"""The losses of `torch.nn`, read as likelihoods.

They average over the outputs of an example too, where a likelihood sums, and their
value is what `step` returns: a squared error without its half stays one. Steps are
those of the likelihood itself. The functions of `torch.nn.functional` stand for the
same losses, with options bound by `functools.partial`.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from adamqlr import likelihoods
from adamqlr.measurements import Scale
from adamqlr.torch.likelihoods import (
    Average,
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    IndependentOutputs,
    Likelihood,
    Poisson,
    WithDefaults,
    at_least_float32,
    nats_of,
)
from adamqlr.torch.robust import Huber, Laplace


@dataclasses.dataclass(frozen=True)
class OutputMean(Likelihood):
    """Another likelihood, averaged over an example's outputs instead of summed.

    Args:
        likelihood: one that sums over the outputs of an example.
        factor: multiplies loss and Fisher information.
    """

    likelihood: IndependentOutputs
    factor: float = 1.0

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        """See `Likelihood`."""
        return self.likelihood.loss(outputs, targets) * self._share(targets)

    def fisher(self, outputs: Any, tangent: Any) -> Tensor:
        """See `Likelihood`."""
        first = outputs if isinstance(outputs, Tensor) else outputs[0]
        return self.likelihood.fisher(outputs, tangent) * self._share(first)

    def weighted_fisher(self, outputs: Any, tangent: Any, targets: Tensor) -> Tensor:
        """See `Likelihood`."""
        lengths = self.likelihood.weighted_fisher(outputs, tangent, targets)
        return lengths * self._share(targets)

    def scale(self, loss: Tensor, targets: list[Tensor], average: Average) -> Scale:
        """See `Likelihood`; a nat is so much less of this loss than of the sum."""
        share = self._share(targets[0])
        scale = self.likelihood.scale(loss / share, targets, average)
        if scale is None:
            return nats_of(share, loss)
        mean, variance, error = scale
        return Scale(share**0.5 * mean, share * variance, share * error)

    def targets_from(self, outputs: Any, grad: Any) -> tuple[Any, Tensor | None]:
        """See `Likelihood`."""
        return self.likelihood.targets_from(outputs, grad)

    def chance(self, outputs: Any) -> float | None:
        """See `Likelihood`; nats, of which the loss has a share, stay nats."""
        return self.likelihood.chance(outputs)

    def least(self, targets: list[Tensor], average: Average) -> float | Tensor | None:
        """See `Likelihood`."""
        least = self.likelihood.least(targets, average)
        return None if least is None else self._share(targets[0]) * least

    def _share(self, outputs: Tensor) -> float:
        return self.factor / max(self.likelihood.width_of(outputs.shape), 1)


class LogProbabilities(WithDefaults):
    """`Categorical` of outputs that are log-probabilities, which it takes as they are.

    The curvature is the Fisher information; the loss is linear in its outputs, so that
    Gauss-Newton would have none.

    Args:
        options: a loss of `torch.nn` that has them.
    """

    def __init__(self, options: nn.NLLLoss):
        weights, ignored = options.weight, options.ignore_index
        super().__init__(Categorical(0.0, weights, ignored, class_axis=1))
        self.options = options

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        r"""$-w_y z_y$."""
        outputs, weights = at_least_float32("NLLLoss", outputs), self.options.weight
        return functional.nll_loss(
            outputs,
            targets,
            None if weights is None else weights.to(outputs),
            ignore_index=self.options.ignore_index,
            reduction="none",
        )


def _cross_entropy(loss: nn.CrossEntropyLoss) -> Likelihood:
    return Categorical(
        loss.label_smoothing, loss.weight, loss.ignore_index, class_axis=1
    )


def _smooth_l1(loss: nn.SmoothL1Loss) -> Likelihood:
    if loss.beta == 0:
        return OutputMean(Laplace())
    return OutputMean(Huber(loss.beta), factor=1 / loss.beta)


_READERS: dict[type[nn.Module], Callable[[Any], Likelihood]] = {
    nn.CrossEntropyLoss: _cross_entropy,
    nn.NLLLoss: LogProbabilities,
    nn.BCEWithLogitsLoss: lambda loss: OutputMean(
        Bernoulli(pos_weight=loss.pos_weight, output_weights=loss.weight)
    ),
    nn.MSELoss: lambda loss: OutputMean(Gaussian(), factor=2.0),
    nn.GaussianNLLLoss: lambda loss: OutputMean(
        HeteroscedasticGaussian(eps=loss.eps, full=loss.full)
    ),
    nn.PoissonNLLLoss: lambda loss: OutputMean(
        Poisson(log_rate=loss.log_input, full=loss.full, eps=loss.eps)
    ),
    nn.L1Loss: lambda loss: OutputMean(Laplace()),
    nn.SmoothL1Loss: _smooth_l1,
    nn.HuberLoss: lambda loss: OutputMean(Huber(loss.delta)),
}

_FUNCTIONS: dict[Callable[..., Tensor], type[nn.Module]] = {
    functional.cross_entropy: nn.CrossEntropyLoss,
    functional.nll_loss: nn.NLLLoss,
    functional.binary_cross_entropy_with_logits: nn.BCEWithLogitsLoss,
    functional.mse_loss: nn.MSELoss,
    functional.gaussian_nll_loss: nn.GaussianNLLLoss,
    functional.poisson_nll_loss: nn.PoissonNLLLoss,
    functional.l1_loss: nn.L1Loss,
    functional.smooth_l1_loss: nn.SmoothL1Loss,
    functional.huber_loss: nn.HuberLoss,
}

# Losses that are not read, where one that is does the same.
_INSTEAD: dict[Any, str] = {
    nn.BCELoss: "give the logits, without the sigmoid, to BCEWithLogitsLoss",
    functional.binary_cross_entropy: "give the logits, without the sigmoid, to "
    "binary_cross_entropy_with_logits",
    nn.KLDivLoss: "give the logits to CrossEntropyLoss, whose targets may be "
    "probabilities: the gradient is the same",
    functional.kl_div: "give the logits to cross_entropy, whose targets may be "
    "probabilities: the gradient is the same",
    nn.SoftMarginLoss: "use BCEWithLogitsLoss with targets 0 and 1",
    nn.MultiLabelSoftMarginLoss: "use BCEWithLogitsLoss, which has the same value",
}


def as_likelihood(given: Any) -> Likelihood:
    """A likelihood as it is, or the one that a loss of `torch.nn` stands for.

    Args:
        given: a `Likelihood`, another object with `loss` and `fisher`, a loss of
            `torch.nn`, or one of `torch.nn.functional`, as it is or in a
            `functools.partial` with its options.

    Raises:
        ValueError: the loss has an option that no likelihood has.
        TypeError: it is none of these; the message says what is missing.
    """
    likelihoods.refuse_class(given)
    if Likelihood in type(given).__mro__:  # To ask a protocol takes far longer.
        return given
    function = given.func if isinstance(given, functools.partial) else given
    if isinstance(function, Callable) and function in _FUNCTIONS:
        given = _module(given)
    if type(given) in _READERS:
        return _read(given)
    missing = likelihoods.missing_methods(given)
    if not missing:
        return WithDefaults(given)
    for known in (type(given), function):
        if isinstance(known, Callable) and known in _INSTEAD:
            raise TypeError(f"{known.__name__} is not supported: {_INSTEAD[known]}")
    names = ", ".join(loss.__name__ for loss in _READERS)
    raise TypeError(
        f"likelihood must be a loss of torch.nn ({names}), one of these in "
        "torch.nn.functional, or an object with methods loss(outputs, targets) and "
        f"fisher(outputs, tangent), as Categorical() is, got {given!r} without "
        f"{' and '.join(missing)}"
    )


def _module(given: Any) -> nn.Module:
    """The module that does what a function with its options does."""
    if not isinstance(given, functools.partial):
        return _FUNCTIONS[given]()
    name, module = given.func.__name__, _FUNCTIONS[given.func]
    if given.args:
        raise ValueError(
            f"likelihood: {name} must have its options bound by name, got the "
            f"positional {given.args!r}"
        )
    try:
        return module(**given.keywords)
    except TypeError as error:
        raise ValueError(
            f"{name} with {', '.join(given.keywords)} is not supported: bind options "
            f"that {module.__name__} has; weights of examples go to "
            "Objective(weights=...)"
        ) from error


def _read(loss: Any) -> Likelihood:
    if loss.reduction != "mean":
        raise ValueError(
            f"{type(loss).__name__} with reduction={loss.reduction!r} is not "
            "supported: use reduction='mean'. A step does not depend on a factor of "
            "the loss, and masks go to Objective(weights=...)"
        )
    return _READERS[type(loss)](loss)
