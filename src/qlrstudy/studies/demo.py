"""About a minute on data that need no download, for a first look."""

from qlrstudy.spec import Budget
from qlrstudy.studies.definition import Cell, Study, Tuned

_EPOCHS = Budget("epochs", 20)
# Nearly all of the time goes into compiling, one program for each algorithm and batch.
# Of the tasks tuned here, diabetes has the fewest: most batches hold all its examples.
_TUNED = Tuned(samples=8, resource="epochs", budget=_EPOCHS)
_UNTUNED = ("adam-untuned", "adamqlr-untuned")

DEMO = Study(
    "demo",
    "AdamQLR and Adam, tuned and left alone, and the library's defaults",
    tuple(Cell("rosenbrock", name, repetitions=1, scale="shown") for name in _UNTUNED)
    + tuple(
        Cell("diabetes", name, _TUNED, repetitions=5, budget=_EPOCHS)
        for name in ("adam", "adamqlr-tuned")
    )
    + tuple(
        Cell(task, name, repetitions=5, budget=_EPOCHS)
        for task in ("diabetes", "digits")
        for name in (*_UNTUNED, "adamqlr")
    ),
)
