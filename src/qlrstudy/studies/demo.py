"""A few minutes on data that need no download, for a first look."""

from qlrstudy.plan import Cell, Study, Tuned
from qlrstudy.spec import Budget

_EPOCHS = Budget(epochs=20)
_TUNED = Tuned(samples=16, resource="epochs", budget=_EPOCHS)

DEMO = Study(
    "demo",
    "AdamQLR and Adam, tuned and left alone",
    tuple(
        Cell("rosenbrock", name, repetitions=1, scale="shown")
        for name in ("adam-untuned", "adamqlr-untuned")
    )
    + tuple(
        Cell(task, name, settings, repetitions=5, budget=_EPOCHS)
        for task in ("diabetes", "digits")
        for name, settings in (
            ("adam", _TUNED),
            ("adam-untuned", {}),
            ("adamqlr-tuned", _TUNED),
            ("adamqlr-untuned", {}),
        )
    ),
)
