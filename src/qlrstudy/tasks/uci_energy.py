"""UCI Energy: the heating load of buildings, by eight of their measures."""

from adamqlr.jax import Fisher, Gaussian
from qlrstudy.data.registry import UCI_ENERGY
from qlrstudy.data.tables import load_table
from qlrstudy.models import MLP, plain
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Task
from qlrstudy.tasks.sampling import Examples


def _load(options: DataOptions) -> Dataset:
    return load_table(UCI_ENERGY, kept=692, validation=0.15, options=options)


_NETWORK = plain(MLP((50,), 1), (8,))

SCALES = {
    "paper": Task(
        name="uci-energy",
        title="UCI Energy",
        scale="paper",
        budget=Budget("epochs", 4000),
        load=_load,
        examples=588,
        init=_NETWORK.init,
        predict=_NETWORK.predict,
        likelihood=Gaussian(),
        curvature=Fisher(),
        sampling=Examples(),
        evaluation_shape=BatchShape(1000),
        adam_batch=BatchShape(588),
    )
}
