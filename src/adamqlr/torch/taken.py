"""Gradients that a loop hands over: what became of them since, and what is wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from adamqlr import rules
from adamqlr.rules import Scalar, Truth, where
from adamqlr.torch.point import Point
from adamqlr.torch.scalars import inner_product, norms, scalar

# The cosine between the loop's gradient of the outputs and the likelihood's own below
# which the two are not the same loss. In bfloat16 equal ones have 0.9999.
_SAME_LOSS = 0.999

# How far the two norms of the gradient may shrink apart where all of it is multiplied
# by one number. Rounded to bfloat16 they do by 0.001.
_SAME_FACTOR = 0.99

# How far the square norm of a gradient may seem to have changed when nothing was: sums
# in float32 depend on their order.
_SAME_LENGTH = 1e-5


class Doubts(NamedTuple):
    """What may be wrong with the gradients that a loop hands over.

    Attributes:
        agreement: cosine of the loop's gradient by the outputs and the likelihood's.
        evenness: how alike two norms of the gradient have changed since `backward()`.
        left: norm of the gradients that `backward()` found there.
    """

    agreement: Scalar
    evenness: Scalar
    left: Scalar

    def any(self) -> Truth:
        """Whether `refuse` has something to say."""
        unlike = (self.agreement < _SAME_LOSS) | (self.evenness < _SAME_FACTOR)
        return unlike | (self.left > 0)

    def refuse(self, loss: Any, model: str) -> None:
        """Say what is wrong, if anything is, with the cure."""
        if self.agreement < _SAME_LOSS:
            raise ValueError(
                f"the loss of the loop is not {loss!r} of the outputs of {model}, "
                "times any factor: their gradients have a cosine of "
                f"{self.agreement:.3f}. Watch the loss that the loop uses, with all "
                "its options (label_smoothing, weight, class_axis, ...), and the "
                "module whose outputs it takes; of mixed labels (mixup) give it the "
                "mixture, as probabilities; or give step() an Objective"
            )
        if self.left > 0:
            raise RuntimeError(
                "the gradients were not zero when backward() began: call zero_grad() "
                "after each step, and let no other loss add to them"
            )
        if self.evenness < _SAME_FACTOR:
            raise RuntimeError(
                "the gradients were changed after backward(), and not by one factor as "
                "clip_grad_norm_ does, so that the slope of the loss is lost: leave "
                "that to the optimiser, clip=lambda params: "
                "torch.nn.utils.clip_grad_value_(params, 0.1) say, which keeps it"
            )


class Taken(NamedTuple):
    """Gradients that a loop has taken, and clipped perhaps.

    Attributes:
        factor: what makes them those of the mean.
        norms: of this process's numbers, right after `backward()`; see `norms`.
        agreement: see `Doubts`.
        left: see `Doubts`.
    """

    factor: Scalar
    norms: Tensor
    agreement: Scalar
    left: Scalar

    def compared(self, point: Point, grads: list[Tensor]) -> tuple[Scalar, Doubts]:
        """What clipping has done to them.

        Args:
            point: where they were taken.
            grads: as they are now.

        Returns:
            What their slope is to be multiplied by to be that of the loss, and the
            `Doubts` about them.
        """
        if self._are_as_taken(point, grads):
            return 1.0, Doubts(self.agreement, 1.0, self.left)
        then_sum, then_square, sum, square = point.whole(*self.norms, *norms(grads))
        by_sum = where(sum == 0, 1.0, rules.quotient(then_sum, sum))
        by_length = where(square == 0, 1.0, rules.quotient(then_square, square))
        by_length = rules.raised(by_length, 0.5)
        evenness = rules.quotient(by_sum, by_length)
        evenness = where(evenness > 1, rules.quotient(1.0, evenness), evenness)
        return by_length, Doubts(*point.agreed(self.agreement, evenness, self.left))

    def _are_as_taken(self, point: Point, grads: list[Tensor]) -> bool:
        """Whether they are as long as they were, where one process can tell at once.

        That takes one pass over them; tensors' counts of their changes would miss what
        is written to their `data`.
        """
        then = scalar(self.norms[1], self.norms.device)
        if point.group is not None or isinstance(then, Tensor):
            return False
        now = scalar(inner_product(grads, grads), self.norms.device)
        return abs(now - then) <= _SAME_LENGTH * then
