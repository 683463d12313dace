"""AdamQLR's defaults against every learning-rate-free peer, at every batch size.

Each task is trained with batches in powers of four, for so many steps as let Adam come
near its best; smaller batches get more of them. Adam's learning rate over a fixed grid,
in each of these cells by itself, is the bar.
"""

from collections.abc import Mapping

from qlrstudy.spec import Budget
from qlrstudy.studies.definition import Cell, Study, grid

PEERS = (
    "adam-untuned",
    "adamw-cosine",
    "prodigy",
    "dadapt-adam",
    "schedule-free-adam",
    "momo-adam",
    "dog",
    "dowg",
    "mechanic-adam",
    "polyak-sgd",
    "muon",
    "sophia",
    "kfac-untuned",
)
LEARNING_RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)

# Task -> batch size -> steps. The largest batch is what fits the training set, or, for
# the convolutional network and the transformer, the patience of two cores.
_STEPS: Mapping[str, Mapping[int, int]] = {
    "diabetes": {16: 600, 64: 400, 256: 300},
    "digits": {16: 800, 64: 400, 256: 200, 1024: 100},
    "uci-energy": {16: 4000, 64: 3000, 256: 2000},
    "uci-protein": {16: 5000, 64: 3000, 256: 2000, 1024: 1000, 4096: 500},
    "fashion-mnist": {16: 4000, 64: 2000, 256: 1000, 1024: 400, 4096: 150},
    "cifar-10": {16: 400, 64: 200, 256: 80},
    "penn-treebank": {4: 400, 16: 200},
    "penn-treebank-characters": {4: 600, 16: 300},
}
_SMALL = ("cifar-10", "penn-treebank")


def _cells(task: str, batch: int, steps: int) -> tuple[Cell, ...]:
    scale = "laptop" if task in _SMALL else "paper"

    def cell(algorithm: str, **varied: tuple[float, ...]) -> Cell:
        points = grid(batch_size=(batch,), **varied)
        budget = Budget("steps", steps)
        return Cell(task, algorithm, {}, points, 3, budget, scale)

    return (
        cell("adamqlr"),
        cell("adamqlr-quarter"),
        cell("adam", learning_rate=LEARNING_RATES),
        *(cell(peer) for peer in PEERS),
    )


ANY_BATCH = Study(
    "any-batch",
    "AdamQLR against peers without a learning rate, at every batch size",
    tuple(
        cell
        for task, batches in _STEPS.items()
        for batch, steps in batches.items()
        for cell in _cells(task, batch, steps)
    ),
)
