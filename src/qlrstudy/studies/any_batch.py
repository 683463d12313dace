"""AdamQLR's defaults against the methods to beat, at every batch size.

Each task is trained with batches of many sizes, for so many steps as let Adam come
near its best; smaller batches get more of them. There are two bars, each tuned in every
one of these cells by itself: Adam with a constant learning rate, and AdamW with a
warm-up and a cosine, which has to know the end of the run. All other methods are as
their authors have them, or with the average of the iterates that AdamQLR has; Adam's
rate is tuned with the average too.

On the first tasks defaults were chosen. On the others nothing was: they, their batch
sizes, off the powers of four, and their steps were decided on before anything ran
there.
"""

from collections.abc import Mapping

from qlrstudy.spec import Budget
from qlrstudy.studies.definition import Arm, Study, grid

# `prodigy-cosine` knows the end of the run, as `adamw-cosine` does.
PEERS = (
    "prodigy",
    "prodigy-cosine",
    "prodigy-average",
    "schedule-free-adam",
    "schedule-free-average",
    "momo-adam",
    "muon",
)
# Where they stand was seen on the first tasks.
OTHERS = (
    "adam-untuned",
    "dadapt-adam",
    "dog",
    "dowg",
    "mechanic-adam",
    "polyak-sgd",
    "sophia",
    "kfac-untuned",
)
LEARNING_RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
COSINE_RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)

# Task -> batch size -> steps. The largest batch is what fits the training set, or, for
# the convolutional network and the transformer, the patience of two cores.
_Steps = Mapping[str, Mapping[int, int]]
_FIRST: _Steps = {
    "diabetes": {16: 600, 64: 400, 256: 300},
    "digits": {16: 800, 64: 400, 256: 200, 1024: 100},
    "uci-energy": {16: 4000, 64: 3000, 256: 2000},
    "uci-protein": {16: 5000, 64: 3000, 256: 2000, 1024: 1000, 4096: 500},
    "fashion-mnist": {16: 4000, 64: 2000, 256: 1000, 1024: 400, 4096: 150},
    "cifar-10": {16: 400, 64: 200, 256: 80},
    "penn-treebank": {4: 400, 16: 200},
    "penn-treebank-characters": {4: 600, 16: 300},
}
_UNSEEN: _Steps = {
    "breast-cancer": {10: 400, 50: 250, 200: 150},
    "wine": {10: 300, 90: 200},
    "uci-protein-area": {24: 2500, 200: 1200, 700: 600},
    "svhn-grey": {10: 2500, 50: 1200, 700: 250},
    "python-manual-characters": {6: 500, 24: 250},
    "python-manual": {10: 400},
    "svhn": {24: 200},
}
_SMALL = ("cifar-10", "penn-treebank", "svhn")


def _arms(task: str, batch: int, steps: int, *, unseen: bool) -> tuple[Arm, ...]:
    scale = "laptop" if task in _SMALL else "paper"

    def arm(algorithm: str, **varied: tuple[float, ...]) -> Arm:
        points = grid(batch_size=(batch,), **varied)
        budget = Budget("steps", steps)
        return Arm(task, algorithm, {}, points, 3, budget, scale, unseen)

    return (
        arm("adamqlr"),
        arm("adam", learning_rate=LEARNING_RATES),
        arm("adam-average", learning_rate=LEARNING_RATES),
        arm("adamw-cosine", learning_rate=COSINE_RATES),
        *(arm(peer) for peer in PEERS),
        *(arm(peer) for peer in OTHERS if not unseen),
    )


ANY_BATCH = Study(
    "any-batch",
    "AdamQLR against the methods to beat, at every batch size",
    tuple(
        arm
        for tasks, unseen in ((_FIRST, False), (_UNSEEN, True))
        for task, batches in tasks.items()
        for batch, steps in batches.items()
        for arm in _arms(task, batch, steps, unseen=unseen)
    ),
)
