"""What a run says of itself: at each step, and at each evaluation.

The store keeps these and the report reads them; neither loads a learning framework.
"""

from typing import Any, NamedTuple

Numbers = Any  # of a step or of many: traced, on the device or on the host


class StepReport(NamedTuple):
    """What a step tells of itself; NaN where an algorithm has no such thing.

    Attributes:
        loss: of the step's minibatch, before the step: the paper's training loss.
        step_size: the factor on the direction.
        damping: of this step.
        reduction_ratio: change of the loss over the predicted change.
    """

    loss: Numbers
    step_size: Numbers
    damping: Numbers
    reduction_ratio: Numbers


class Record(NamedTuple):
    """One evaluation of a run; NaN where a task has no such thing.

    `minibatch_training_loss` is the last step's own, as in the paper's tables;
    `training_loss` is that of the whole training split with the parameters as they
    are now, like `validation_loss` and `test_loss`. `training_seconds` hold neither
    compilation nor evaluation.
    """

    step: int
    epoch: float
    training_seconds: float
    minibatch_training_loss: float
    training_loss: float
    validation_loss: float
    test_loss: float
    training_accuracy: float
    validation_accuracy: float
    test_accuracy: float
    step_size: float
    damping: float
