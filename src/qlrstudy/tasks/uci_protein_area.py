"""The surface of a protein by its other measures: another question to UCI Protein.

The first column of the table is what the eight other measures are to tell; how far the
model of the protein is off, the target of `uci-protein`, is left out.
"""

from adamqlr.jax import Fisher, Gaussian
from qlrstudy.data.registry import UCI_PROTEIN
from qlrstudy.data.tables import load_table
from qlrstudy.models import MLP, plain
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Split, Task
from qlrstudy.tasks.sampling import Examples


def _load(options: DataOptions) -> Dataset:
    data = load_table(UCI_PROTEIN, kept=41157, validation=0.15, options=options)
    train, validation, test = (
        Split(part.inputs[:, 1:], part.inputs[:, :1])
        for part in (data.train, data.validation, data.test)
    )
    return Dataset(train, validation, test, data.sources, data.incomplete)


_NETWORK = plain(MLP((60, 60), 1), (8,))

SCALES = {
    "paper": Task(
        name="uci-protein-area",
        title="UCI Protein (area)",
        scale="paper",
        budget=Budget("epochs", 20),
        load=_load,
        examples=34_983,
        init=_NETWORK.init,
        predict=_NETWORK.predict,
        likelihood=Gaussian(),
        curvature=Fisher(),
        sampling=Examples(),
        evaluation_shape=BatchShape(10_000),
        adam_batch=BatchShape(100),
        evaluations=25,
    )
}
