r"""What a likelihood is, whatever arrays it is written for. No framework.

It answers two questions of each example: its negative log-likelihood, and the square
length $t^\top F t$ of a change $t$ of the outputs in the Fisher metric
$F = \mathrm{E}_{y \sim p(y|z)}\!\left[\nabla_z \log p\, \nabla_z \log p^\top\right]$.
Averaging over examples is `Objective`'s alone, so that loss, gradient and curvature
cannot be normalised apart.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from adamqlr.measurements import Scale

Array = TypeVar("Array")


class Likelihood(Protocol[Array]):
    """A family of distributions over targets, given a network's outputs.

    One of your own is any class with `loss` and `fisher`; the other methods have
    defaults. `Array` stands for the arrays of a framework, here one number for each
    example.
    """

    def loss(self, outputs: Any, targets: Any) -> Array:
        """Negative log-likelihood of each example, up to a constant."""
        ...

    def fisher(self, outputs: Any, tangent: Any) -> Array:
        """Fisher length squared of a change of the outputs, for each example."""
        ...

    def weighted_fisher(self, outputs: Any, tangent: Any, targets: Any) -> Array:
        """`fisher`, times what the targets make it count in the loss.

        Only a likelihood with weights of its own, as those of classes are, has more to
        say than `fisher` does.
        """
        del targets
        return self.fisher(outputs, tangent)

    def counts(self, targets: Any) -> Array | None:
        """How much each example counts in the number that divides the summed loss.

        Returns:
            `None`, if each counts one.
        """
        del targets
        return None

    def scale(
        self, loss: Array, targets: Any, average: Callable[[Any], Array]
    ) -> Scale | None:
        """What a batch says about the targets' scale, where the likelihood does not.

        Args:
            loss: mean over the batch.
            targets: of the batch; in torch a list, of each micro-batch.
            average: mean over the batch of a number for each example.

        Returns:
            `None`, if the loss is in nats by itself.
        """
        del loss, targets, average
        return None

    def chance(self, outputs: Any) -> float | None:
        """Nats that guessing costs for each example; `None` if that is not known."""
        del outputs
        return None

    def least(
        self, targets: Any, average: Callable[[Any], Array]
    ) -> float | Array | None:
        """The mean loss that the best of all outputs would have, or a bound below it.

        Args:
            targets: of the batch; in torch a list, of each micro-batch.
            average: mean over the batch of a number for each example.

        Returns:
            `None`, if it is not known.
        """
        del targets, average
        return None


class WithDefaults(Likelihood[Array]):
    """The methods of an object, and those of `Likelihood` where it has none.

    Args:
        given: has `loss` and `fisher`.
    """

    def __init__(self, given: Any):
        self.given = given
        for name in (
            "weighted_fisher",
            "counts",
            "scale",
            "chance",
            "least",
            "targets_from",
        ):
            if callable(getattr(given, name, None)):
                setattr(self, name, getattr(given, name))

    def loss(self, outputs: Any, targets: Any) -> Array:
        """See `Likelihood`."""
        return self.given.loss(outputs, targets)

    def fisher(self, outputs: Any, tangent: Any) -> Array:
        """See `Likelihood`."""
        return self.given.fisher(outputs, tangent)


def losses_of(
    likelihood: Likelihood[Any], outputs: Any, targets: Any, penalised: bool
) -> Any:
    """The loss of each example of a batch.

    Args:
        likelihood: of the outputs.
        outputs: of the model.
        targets: of the batch.
        penalised: whether the outputs are a pair, the second a penalty, which counts as
            often as the example does.

    Raises:
        ValueError: the batch holds no example.
    """
    outputs, penalty = outputs if penalised else (outputs, None)
    losses = likelihood.loss(outputs, targets)
    if 0 in losses.shape:
        raise ValueError(
            "the batch holds no example (the losses of its examples have shape "
            f"{tuple(losses.shape)}): leave such batches out"
        )
    if penalty is None:
        return losses
    counts = likelihood.counts(targets)
    return losses + (penalty if counts is None else counts * penalty)


def refuse_class(given: Any) -> None:
    """Refuse `Categorical` where `Categorical()` is meant."""
    if isinstance(given, type):
        raise TypeError(
            f"likelihood must be an object, got the class {given.__name__}: "
            f"pass {given.__name__}()"
        )


def missing_methods(given: Any) -> list[str]:
    """Which of the methods that a likelihood must have an object has not."""
    methods = ("loss", "fisher")
    return [name for name in methods if not callable(getattr(given, name, None))]


def check_shape(name: str, found: Sequence[int], expected: Sequence[int]) -> None:
    """Refuse an array of another shape than the outputs ask for."""
    if tuple(found) != tuple(expected):
        raise ValueError(
            f"{name} must have shape {tuple(expected)} to match the outputs, "
            f"got {tuple(found)}"
        )


def check_broadcast(name: str, found: Sequence[int], event: Sequence[int]) -> None:
    """Refuse weights that are not one for each output of an example."""
    padded = (1,) * (len(event) - len(found)) + tuple(found)
    fits = all(own in (1, size) for own, size in zip(padded, event, strict=False))
    if len(padded) > len(event) or not fits:
        raise ValueError(
            f"{name} of shape {tuple(found)} must broadcast to the outputs of one "
            f"example, {tuple(event)}; weights of examples go to "
            "Objective(weights=...)"
        )
