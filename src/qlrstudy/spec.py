"""What every room of the study speaks: tasks, data, algorithms, budgets, records.

A *task* says what is learnt (data, model, likelihood, budget), an *algorithm* says how
(a step, and the space its settings are searched in). Neither knows the other, nor how
a run is timed, evaluated or stored. A task at another scale is another `Task` value.

The store and the report speak of these too, so neither NumPy nor a learning framework
is loaded here: their names stand in annotations alone.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

if TYPE_CHECKING:
    import numpy as np
    from jaxtyping import Array, Float, Int, PRNGKeyArray

    from adamqlr.jax import Curvature, Likelihood

Params = Any  # a pytree of arrays
ModelState = Any  # likewise: batch-norm statistics, say; `{}` for a model without
Settings = Mapping[str, Any]  # name of a hyperparameter -> number, traced or not
Numbers = Any  # of a step or of many: traced, on the device or on the host
Unit = Literal["epochs", "steps", "seconds"]


# --- data -----------------------------------------------------------------------


class Split(NamedTuple):
    """Inputs and targets with examples (for text: tokens) on the first axis.

    Normalised, and in the types the model takes: float32, integers for classes and
    tokens. For text, `targets` are `inputs` moved on by one token.
    """

    inputs: np.ndarray
    targets: np.ndarray


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A file that a run has read, so that its data can be told from any other.

    Args:
        name: with the data set's folder.
        sha256: of its content.
        size: in bytes.
        examples: that it holds (rows, images, labels, words).
    """

    name: str
    sha256: str
    size: int
    examples: int


@dataclasses.dataclass(frozen=True)
class Dataset:
    """The three splits and where they came from.

    Args:
        train: what is learnt from, without the validation part.
        validation: what settings are chosen by.
        test: what results are reported on.
        sources: the files read, in the publisher's format.
        incomplete: what is missing, in words, where partial data were permitted;
            `None` for the publisher's whole set. Everything written repeats it.
    """

    train: Split
    validation: Split
    test: Split
    sources: tuple[SourceFile, ...] = ()
    incomplete: str | None = None


class DataOptions(NamedTuple):
    """Where data may come from.

    Attributes:
        directory: holds the publishers' files; `None` for `QLR_DATA`, or else the
            download cache.
        partial: whether an incomplete set will do.
    """

    directory: Path | None = None
    partial: bool = False


# --- tasks ----------------------------------------------------------------------


class BatchShape(NamedTuple):
    """What fixes the shape of a step: examples, and for text the tokens of each."""

    size: int
    length: int | None = None


class Batch(NamedTuple):
    """Part of a split on the device; weight zero leaves an example (or token) out."""

    inputs: Array
    targets: Array
    weights: Float[Array, "*examples"]


class Sampling(Protocol):
    """How an epoch is cut into batches of one shape, and a split swept in order.

    A plan is `(indices, weights)` with steps on the first axis; `gather` turns one
    step of it into a batch. Plans and batches are made on the device, traced.
    """

    def steps(self, count: int, shape: BatchShape) -> int:
        """Steps of an epoch over a split with `count` entries on its first axis."""
        ...

    def epoch(
        self, key: PRNGKeyArray, count: int, shape: BatchShape
    ) -> tuple[Int[Array, "steps batch"], Float[Array, "steps ..."]]:
        """One epoch's plan, at random."""
        ...

    def sweep(
        self, count: int, shape: BatchShape
    ) -> tuple[Int[Array, "steps batch"], Float[Array, "steps ..."]]:
        """A plan that meets each entry with total weight one, for evaluation."""
        ...

    def gather(
        self,
        split: Split,
        indices: Int[Array, " batch"],
        weights: Float[Array, ...],
        shape: BatchShape,
    ) -> Batch:
        """One step's batch."""
        ...


class Predict(Protocol):
    """A model: pure, in training mode or not.

    `weights` of zero mark rows that only fill up the last batch of an epoch: batch
    norm must not see them (flax: `mask`); other models need not look.
    """

    def __call__(
        self,
        params: Params,
        inputs: Array,
        state: ModelState,
        *,
        training: bool,
        weights: Float[Array, " batch"] | None = None,
    ) -> tuple[Array, ModelState]:
        """The likelihood's outputs, and the new model state."""
        ...


@dataclasses.dataclass(frozen=True, order=True)
class Budget:
    """How long to train.

    Args:
        unit: what is counted: epochs, steps, or seconds of training.
        amount: how many; epochs and steps are whole.
    """

    unit: Unit
    amount: float

    def __post_init__(self) -> None:
        if self.unit not in get_args(Unit):
            units = ", ".join(get_args(Unit))
            raise ValueError(
                f"a budget's unit must be one of {units}, got {self.unit!r}"
            )
        whole = self.unit == "seconds" or self.amount == math.floor(self.amount)
        if not (math.isfinite(self.amount) and self.amount > 0 and whole):
            raise ValueError(
                f"a budget must be a positive number of {self.unit}, got {self.amount}"
            )

    def __str__(self) -> str:
        return f"{self.amount:g} {self.unit}"

    def total_steps(self, steps_per_epoch: int) -> int | None:
        """Steps of the whole run; `None` where only the clock will tell."""
        if self.unit == "seconds":
            return None
        each = steps_per_epoch if self.unit == "epochs" else 1
        return each * int(self.amount)


class LogUniform(NamedTuple):
    """Search a positive number, uniform in its logarithm."""

    low: float
    high: float


class Complement(NamedTuple):
    """Search one minus a number, uniform in the logarithm of what is left."""

    low: float
    high: float


SearchSpace = Mapping[str, LogUniform | Complement]


# Compared by identity: a task's programs are compiled once for each such value.
@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """What is learnt, at one scale.

    Args:
        name: on the command line.
        title: in the paper's tables.
        scale: `paper`, or `laptop` for a smaller model, fewer examples or steps.
        budget: the protocol's.
        load: reads the data.
        examples: entries of the training split (for text: tokens) of the whole data, by
            which a study's cost is estimated without them.
        init: draws `(params, model state)` from a key, by the protocol: weights from
            a normal of deviation 1/sqrt(fan-in) truncated at two deviations, biases 0.
        predict: the model.
        likelihood: what its outputs say about the targets.
        curvature: AdamQLR's, where the algorithm's name does not say.
        sampling: how batches are drawn.
        evaluation_shape: of the batches that a split is evaluated in.
        adam_batch: Adam (Untuned)'s batch.
        qlr_batch: the batch of the other untuned algorithms.
        batch_sizes: those to tune over; none for a task that has no batches.
        sequence_lengths: likewise, for text.
        accuracy: one or zero for each example, where the task has classes.
        augment: changes a batch's inputs at random, in training only.
        evaluations: most evaluations of a run.
        convolutional: XLA runs convolutions inside a loop slowly on a CPU, so there
            such a task takes its steps one program call at a time.
        traced: whether a run keeps its parameters, and so evaluates, after each step:
            for a few numbers whose path is drawn.
        layered: `predict` with each layer one operation, for algorithms that look for
            layers in it; `None` where `predict` has no others.
        search: ranges of its own, by the setting's name, where algorithms have others.
    """

    name: str
    title: str
    scale: str
    budget: Budget
    load: Callable[[DataOptions], Dataset]
    examples: int
    init: Callable[[PRNGKeyArray], tuple[Params, ModelState]]
    predict: Predict
    likelihood: Likelihood
    curvature: Curvature
    sampling: Sampling
    evaluation_shape: BatchShape
    adam_batch: BatchShape
    qlr_batch: BatchShape = BatchShape(3200)
    batch_sizes: tuple[int, ...] = (50, 100, 200, 400, 800, 1600, 3200)
    sequence_lengths: tuple[int, ...] = ()
    accuracy: Callable[[Array, Array], Array] | None = None
    augment: Callable[[PRNGKeyArray, Array], Array] | None = None
    evaluations: int = 50
    convolutional: bool = False
    traced: bool = False
    layered: Predict | None = None
    search: SearchSpace = dataclasses.field(default_factory=dict)

    def searched(self, algorithm: Algorithm) -> SearchSpace:
        """Where an algorithm's settings are tuned on this task."""
        return {name: self.search.get(name, s) for name, s in algorithm.search.items()}


# --- algorithms -----------------------------------------------------------------


class StepReport(NamedTuple):
    """What a step tells of itself; NaN where an algorithm has no such thing.

    Attributes:
        loss: of the step's minibatch, before the step: the paper's training loss.
        step_size: the factor on the direction.
        damping: of this step.
        reduction_ratio: change of the loss over the predicted change.
        accuracy: of the step's minibatch, before the step, where the task has classes.
            Evaluations keep it; of the steps between, nobody does.
    """

    loss: Numbers
    step_size: Numbers
    damping: Numbers
    reduction_ratio: Numbers
    accuracy: Numbers = math.nan


class Stepper(NamedTuple):
    """An algorithm bound to a task and settings: two functions over one carry.

    Attributes:
        init: `(params, model state, a batch, key) -> carry`.
        step: `(carry, batch, key) -> (carry, report)`.
        params: `carry -> (params, model state)`.
    """

    init: Callable[[Params, ModelState, Batch, PRNGKeyArray], Any]
    step: Callable[[Any, Batch, PRNGKeyArray], tuple[Any, StepReport]]
    params: Callable[[Any], tuple[Params, ModelState]]


@dataclasses.dataclass(frozen=True, eq=False)
class Algorithm:
    """How a task is learnt.

    Args:
        name: on the command line.
        title: in the paper's tables.
        bind: makes the stepper out of a task and settings (all of `defaults`' names).
        defaults: each setting's name and the value it has unless given.
        search: the space of those that are tuned; the batch is tuned with them.
        batch: the batch shape where none is given.
        traceable: whether `step` may be compiled into a larger program; kfac-jax
            compiles its own.
        scheduled: whether the settings that `bind` is given must also hold `steps`,
            those of the whole run, which a learning rate's schedule ends with.
        check: raises `ValueError` with the cure where a package is missing that only
            this algorithm needs; asked before a run begins.
        version: of what it does with the same settings, for an algorithm that is still
            being worked on: its runs are other runs with each.
    """

    name: str
    title: str
    bind: Callable[[Task, Settings], Stepper]
    defaults: Mapping[str, float]
    search: SearchSpace
    batch: Callable[[Task], BatchShape]
    traceable: bool = True
    scheduled: bool = False
    check: Callable[[], Any] = lambda: None
    version: str = ""


# --- runs -----------------------------------------------------------------------


# Seeds that JAX tells apart: it keeps the last 32 bits of one, and no word of the rest.
SEEDS = 2**32


@dataclasses.dataclass(frozen=True)
class Run:
    """All that decides a run's numbers, given the data.

    Args:
        task: at its scale.
        algorithm: what learns it.
        settings: a value for each of the algorithm's settings.
        shape: of a batch.
        seed: of initial parameters, order of examples, and all other chance.
        budget: how long to train.
    """

    task: Task
    algorithm: Algorithm
    settings: Mapping[str, float]
    shape: BatchShape
    seed: int
    budget: Budget

    def __post_init__(self) -> None:
        if not 0 <= self.seed < SEEDS:
            raise ValueError(
                f"seed must be a whole number from 0 to {SEEDS - 1}, got {self.seed}"
            )
        if self.algorithm.scheduled and self.budget.unit == "seconds":
            raise ValueError(
                f"the schedule of algorithm {self.algorithm.name!r} needs to know the "
                f"steps of the run, got a budget of {self.budget}; give epochs or steps"
            )

    def evaluation_interval(self, steps_per_epoch: int) -> int | None:
        """Steps from one evaluation to the next; `None` for a budget in seconds.

        Whole epochs, and not too many evaluations; or, of a budget in steps, which may
        be less than an epoch, a share of it.
        """
        total = self.budget.total_steps(steps_per_epoch)
        if total is None:
            return None
        if self.task.traced:
            return 1
        most = self.task.evaluations
        if self.budget.unit == "steps" and total >= most:
            return -(-total // most)
        epochs = -(-total // steps_per_epoch)
        return steps_per_epoch * -(-epochs // most)


class Record(NamedTuple):
    """One evaluation of a run; NaN where a task has no such thing.

    `minibatch_training_loss` and `minibatch_training_accuracy` are the last step's own,
    as in the paper's tables; `training_loss` is that of the whole training split with
    the parameters as they are now, like `validation_loss` and `test_loss`.
    `training_seconds` hold neither compilation nor evaluation.
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
    minibatch_training_accuracy: float = math.nan  # not in stores of before
