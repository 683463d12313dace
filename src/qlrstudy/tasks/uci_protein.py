"""UCI Protein: how far a model of a protein is off, by nine of its measures."""

from adamqlr.jax import Fisher, Gaussian
from qlrstudy.data.registry import UCI_PROTEIN
from qlrstudy.data.tables import load_table
from qlrstudy.models import MLP, plain
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Task
from qlrstudy.tasks.sampling import Examples


def _load(options: DataOptions) -> Dataset:
    return load_table(UCI_PROTEIN, kept=41157, validation=0.15, options=options)


_NETWORK = plain(MLP((100,), 1), (9,))

SCALES = {
    "paper": Task(
        name="uci-protein",
        title="UCI Protein",
        scale="paper",
        budget=Budget("epochs", 200),
        load=_load,
        examples=34_983,
        init=_NETWORK.init,
        predict=_NETWORK.predict,
        likelihood=Gaussian(),
        curvature=Fisher(),
        sampling=Examples(),
        evaluation_shape=BatchShape(10_000),
        adam_batch=BatchShape(1000),
    )
}
