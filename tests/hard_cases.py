"""Problems that users bring along, one table of them, as values of no framework.

`hard_cases_jax` and `hard_cases_torch` train on them, from the same weights and on the
same batches. Whatever the trouble is, a network that was trained should be better than
it began and no worse than a constant.
"""

import dataclasses
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Data, a network's weights and the batches to train it on.

    Attributes:
        x: inputs, one row for each example.
        y: targets, likewise.
        likelihood: name of the class that both libraries have.
        weights: of each layer, by whose shapes the network is known.
        biases: of each layer.
        rows: which examples are in the batch of each step.
        activation: between layers, `relu` or `tanh`.
        batch_norm: whether outputs of all layers but the last are normalised by the
            batch's own statistics.
        not_finite: for each step, whether its inputs are NaN.
        bar: the loss that a trained network may not be above: the best constant's, or
            some more where that is zero or where constants are all the network has.
    """

    x: np.ndarray
    y: np.ndarray
    likelihood: str
    weights: list[np.ndarray]
    biases: list[np.ndarray]
    rows: np.ndarray
    activation: str
    batch_norm: bool
    not_finite: np.ndarray
    bar: float

    @property
    def program(self) -> tuple:
        """All that a compiled program depends on: what is no number of the problem."""
        shapes = [array.shape for array in (self.x, self.y, self.rows, *self.weights)]
        return self.likelihood, self.activation, self.batch_norm, *shapes


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Losses of the whole data before and after training.

    Attributes:
        start: before.
        params: after, of the parameters that were trained.
        average: after, of those to be evaluated; the same for an optimiser that keeps
            no average.
        steps: how many were not refused.
    """

    start: float
    params: float
    average: float
    steps: int

    def failures(self, bar: float) -> list[str]:
        """What went wrong, by the name of what is evaluated."""
        found = []
        for name in ("params", "average"):
            loss = getattr(self, name)
            if not np.isfinite(loss):
                found.append(f"{name} not finite")
            elif loss > self.start:
                found.append(f"{name} above the start")
            elif loss > bar:
                found.append(f"{name} above the constant")
        return found


def constant_loss(likelihood: str, y: np.ndarray) -> float:
    """Mean loss of the best constant outputs."""
    y = y.astype(np.float64)
    if likelihood == "Gaussian":
        return float(((y - y.mean(0)) ** 2).sum(1).mean() / 2)
    if likelihood == "Poisson":
        rate = y.mean(0)
        return float((rate - y * np.log(np.where(rate > 0, rate, 1))).sum(1).mean())
    if likelihood == "Bernoulli":
        shares = np.stack([y.mean(0), 1 - y.mean(0)])
    else:
        shares = np.bincount(y.astype(int))[:, None] / len(y)
    return float(-(shares * np.log(np.where(shares > 0, shares, 1))).sum())


def problem(
    seed: int,
    x: np.ndarray,
    y: np.ndarray,
    likelihood: str = "Gaussian",
    *,
    hidden: tuple[int, ...] = (64, 64),
    outputs: int | None = None,
    batch: int = 32,
    steps: int = 1000,
    activation: str = "relu",
    gain: float = 1.0,
    bias: float = 0.0,
    head: float = 1.0,
    batch_norm: bool = False,
    in_order: bool = False,
    not_finite: float = 0.0,
    bar: float | None = None,
) -> Problem:
    """A network of normal weights, of deviation `gain` over the root of the inputs.

    Args:
        seed: of weights and batches.
        x: inputs.
        y: targets.
        likelihood: of the targets.
        hidden: widths of the layers between.
        outputs: width of the last; `None` for the targets' own.
        batch: examples in each.
        steps: batches.
        activation: between layers.
        gain: of the weights.
        bias: of the hidden layers.
        head: a factor of the last layer's weights.
        batch_norm: see `Problem`.
        in_order: take rows as they come, not at random.
        not_finite: share of batches that are not.
        bar: see `Problem`.
    """
    draw = np.random.default_rng(seed)
    widths = [x.shape[1], *hidden, outputs or y.shape[1]]
    ends = list(zip(widths[:-1], widths[1:], strict=True))
    gains = [gain] * len(hidden) + [gain * head]
    rows = draw.integers(0, len(x), (steps, batch))
    if in_order:
        rows = (np.arange(steps * batch) % len(x)).reshape(steps, batch)
    return Problem(
        x=x.astype(np.float32),
        y=y.astype(np.int32 if likelihood == "Categorical" else np.float32),
        likelihood=likelihood,
        weights=[
            (gain * draw.normal(size=e) / e[0] ** 0.5).astype(np.float32)
            for gain, e in zip(gains, ends, strict=True)
        ],
        biases=[
            np.full(e[1], bias if n + 1 < len(ends) else 0, np.float32)
            for n, e in enumerate(ends)
        ],
        rows=rows,
        activation=activation,
        batch_norm=batch_norm,
        not_finite=draw.uniform(size=steps) < not_finite,
        bar=constant_loss(likelihood, y) if bar is None else bar,
    )


Make = Callable[[int], Problem]


# Of all examples, those that rare classes have together.
SHARES = [0.005, 0.01, 0.05, 0.2, 0.5]


def rare_classes(
    seed: int, share: float, batch: int, *, classes: int = 2, steps: int | None = None
) -> Problem:
    """Classes by the first inputs, all but one of which are a rare `share` together."""
    x = np.random.default_rng(seed + 100).normal(size=(4000, 10))
    steps = steps or (2000 if batch < 128 else 600)
    if classes == 2:
        y = x[:, :1] > np.quantile(x[:, 0], 1 - share)
        return problem(seed, x, y, "Bernoulli", batch=batch, steps=steps)
    edges = np.quantile(x[:, 0], 1 - share * np.linspace(1, 0, classes)[:-1])
    y = np.searchsorted(edges, x[:, 0], side="right")
    return problem(seed, x, y, "Categorical", outputs=classes, batch=batch, steps=steps)


def _normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


# The data are the same for all seeds, which are those of weights and batches.
X = _normal(0, 512, 10)
TEACHER = np.tanh(X @ _normal(1, 10, 5)) @ _normal(2, 5, 2)
LABELS = np.argmax(np.tanh(X @ _normal(3, 10, 6)) @ _normal(4, 6, 5), axis=1)
RATES = np.exp(TEACHER / 2)
SCALES = 10.0 ** np.linspace(-3, 3, 10)


def regression(x: np.ndarray = X, y: np.ndarray = TEACHER, **how) -> Make:
    """Two real targets, made by a small network."""
    return lambda seed: problem(seed, x, y, **how)


def classes(x: np.ndarray = X, y: np.ndarray = LABELS, **how) -> Make:
    """Five classes, or as many as the labels have."""
    how = {"outputs": int(y.max()) + 1} | how
    return lambda seed: problem(seed, x, y, "Categorical", **how)


def counts(y: np.ndarray, **how) -> Make:
    """Two counts, whose rates a small network makes."""
    return lambda seed: problem(seed, X, y, "Poisson", **how)


def rare(share: float, batch: int, classes: int = 2) -> Make:
    """See `rare_classes`."""
    return lambda seed: rare_classes(seed, share, batch, classes=classes)


def _poisson(rates: np.ndarray) -> np.ndarray:
    return np.random.default_rng(5).poisson(rates).astype(float)


def _mislabelled(share: float) -> np.ndarray:
    draw = np.random.default_rng(6)
    wrong = draw.uniform(size=len(LABELS)) < share
    return np.where(wrong, draw.integers(0, 5, len(LABELS)), LABELS)


def _outlier(size: float) -> np.ndarray:
    return np.where(np.arange(len(X))[:, None] == 7, size, TEACHER)


def _words() -> np.ndarray:
    """One-hot rows, some of which come once in all the data."""
    ranks = np.random.default_rng(7).zipf(1.3, len(X)) % 200
    return np.eye(200)[ranks]


# Where constants are all that a network has, batches keep it from the very best one.
ONLY_A_CONSTANT = 1.05 * constant_loss("Categorical", LABELS)
PARITY = (X[:, :3] > 0).sum(1) % 2
CAUCHY = np.random.default_rng(8).standard_cauchy(TEACHER.shape)
FOUR = np.arange(len(X)) % 4
BY_LABEL = np.argsort(LABELS, kind="stable")

PROBLEMS: dict[str, Make] = {
    "rare class 0.5 %, batch 4": rare(0.005, 4),
    "rare class 1 %, batch 4": rare(0.01, 4),
    "rare class 1 %, batch 32": rare(0.01, 32),
    "rare class 1 %, batch 128": rare(0.01, 128),
    "rare class 5 %, batch 4": rare(0.05, 4),
    "rare class 0.5 %, batch 512": rare(0.005, 512),
    "four rare classes 1 %, batch 4": rare(0.01, 4, 5),
    "four rare classes 5 %, batch 32": rare(0.05, 32, 5),
    "targets times 1e-6": regression(y=1e-6 * TEACHER, head=0.0),
    "targets times 1e-3": regression(y=1e-3 * TEACHER, head=0.0),
    "targets times 1e3": regression(y=1e3 * TEACHER),
    "targets times 1e6": regression(y=1e6 * TEACHER),
    "targets far from zero": regression(y=TEACHER + 100.0),
    "targets of different scales": regression(y=TEACHER * [1e-3, 1e3]),
    "inputs times 1e-6": classes(x=1e-6 * X, bar=ONLY_A_CONSTANT),
    "inputs times 1e-2": classes(x=1e-2 * X),
    "inputs times 1e2": classes(x=1e2 * X),
    "inputs times 1e6": classes(x=1e6 * X),
    "inputs far from zero": classes(x=X + 100.0),
    "features of different scales": regression(x=X * SCALES),
    "features of different scales, classes": classes(x=X * SCALES),
    "features of different scales, linear": regression(
        x=X * SCALES, y=X @ _normal(9, 10, 2), hidden=()
    ),
    "every tenth batch not finite": classes(not_finite=0.1),
    "half of the batches not finite": classes(not_finite=0.5),
    "nine tenths not finite": regression(not_finite=0.9),
    "20 layers, tanh": classes(hidden=(32,) * 19, activation="tanh"),
    "20 layers, relu": classes(hidden=(32,) * 19, gain=2**0.5),
    "20 layers, tanh, vanishing": classes(
        hidden=(32,) * 19, activation="tanh", gain=0.7
    ),
    "batches of one": classes(batch=1, steps=2000),
    "batches of one, regression": regression(batch=1, steps=2000),
    "batches of two, batch norm": classes(batch=2, steps=2000, batch_norm=True),
    "all data in a batch": classes(batch=512, steps=100),
    "counts in the ten thousands": counts(_poisson(2e4 * RATES)),
    "counts, most of them zero": counts(_poisson(0.02 * RATES)),
    "huge initial weights": classes(gain=100.0),
    "huge initial weights, regression": regression(gain=10.0),
    "tiny initial weights": classes(gain=1e-3),
    "initial weights of zero": classes(gain=0.0, bar=ONLY_A_CONSTANT),
    "dead units": classes(bias=-3.0, bar=ONLY_A_CONSTANT),
    "saturated units": classes(activation="tanh", bias=20.0, bar=ONLY_A_CONSTANT),
    "constant targets": regression(y=np.full_like(TEACHER, 3.0), bar=0.045),
    "one class only": classes(y=np.zeros_like(LABELS), outputs=5, bar=0.016),
    "two fifths of the labels wrong": classes(y=_mislabelled(0.4)),
    "labels without meaning": classes(y=_mislabelled(1.0), steps=2000),
    "heavy tails": regression(y=TEACHER + CAUCHY),
    "one outlier": regression(y=_outlier(1e3)),
    "inputs that repeat": regression(x=X[FOUR], y=TEACHER[FOUR]),
    "same inputs, other labels": classes(x=X[FOUR], bar=ONLY_A_CONSTANT),
    "batches in the order of classes": classes(
        x=X[BY_LABEL], y=LABELS[BY_LABEL], in_order=True
    ),
    "parity": classes(y=PARITY),
    "rare words": classes(x=_words(), hidden=(64,)),
    "one example": classes(x=X[:1], y=LABELS[:1], outputs=5, batch=1, bar=0.016),
}
