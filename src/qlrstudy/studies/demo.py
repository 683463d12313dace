"""What the library is for, in two minutes, on data that need no download.

The defaults, which have no learning rate, against Adam over five of them, with small
and with large batches; and the path of both down Rosenbrock's valley.
"""

from qlrstudy.spec import Budget
from qlrstudy.studies.definition import Arm, Study, grid

LEARNING_RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
# Batch size -> steps: more of the small ones. As far apart as the data allow, so that
# the rate that suits Adam is not the same for both. Most of the time goes into
# compiling, one program for each algorithm and batch.
_STEPS = {4: 1600, 1024: 200}

DEMO = Study(
    "demo",
    "AdamQLR against Adam over five learning rates, at two batch sizes",
    tuple(
        Arm("rosenbrock", name, repetitions=1, scale="shown")
        for name in ("adam-untuned", "adamqlr")
    )
    + tuple(
        Arm(
            "digits",
            name,
            points=grid(batch_size=(batch,), **varied),
            repetitions=3,
            budget=Budget("steps", steps),
        )
        for batch, steps in _STEPS.items()
        for name, varied in (
            ("adam", {"learning_rate": LEARNING_RATES}),
            ("adamqlr", {}),
        )
    ),
)
