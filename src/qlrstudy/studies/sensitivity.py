"""The paper's appendix B.5: one setting at a time, from the best, on Fashion-MNIST."""

from collections.abc import Iterable

from qlrstudy.studies.definition import Arm, Settings, Study, Tuned, grid

_BATCHES = grid(batch_size=(50, 100, 200, 400, 800, 1600, 3200))


def _powers(base: float, exponents: Iterable[float]) -> tuple[float, ...]:
    return tuple(base**exponent for exponent in exponents)


def _sweep(name: str, title: str, algorithm: str, points: tuple[Settings, ...]):
    arm = Arm("fashion-mnist", algorithm, Tuned(), points)
    return Study(f"sensitivity-{name}", title, (arm,))


_DAMPINGS = grid(damping=_powers(10, (i / 2 for i in range(-16, 1))))
_FACTORS = tuple(
    {"damping_increase": factor, "damping_decrease": 1 / factor}
    for factor in _powers(2, (i / 5 for i in range(11)))
)

RESCALE = _sweep(
    "rescale",
    "AdamQLR-paper's step size times a constant",
    "adamqlr-tuned",
    grid(rescale=_powers(2, (i / 5 for i in range(-5, 6)))),
)
BATCH = _sweep("batch", "AdamQLR-paper's batch size", "adamqlr-tuned", _BATCHES)
DAMPING = _sweep(
    "damping", "AdamQLR-paper's initial damping", "adamqlr-tuned", _DAMPINGS
)
DAMPING_FACTORS = _sweep(
    "damping-factors",
    "AdamQLR-paper's factors of the damping, one the inverse of the other",
    "adamqlr-tuned",
    _FACTORS,
)
ADAM_BATCH = _sweep("adam-batch", "Adam's batch size", "adam", _BATCHES)
ADAM_LEARNING_RATE = _sweep(
    "adam-learning-rate",
    "Adam's learning rate",
    "adam",
    grid(learning_rate=_powers(10, (i / 3 for i in range(-18, 1)))),
)
KFAC_BATCH = _sweep("kfac-batch", "K-FAC's batch size", "kfac", _BATCHES)
KFAC_DAMPING = _sweep("kfac-damping", "K-FAC's initial damping", "kfac", _DAMPINGS)
