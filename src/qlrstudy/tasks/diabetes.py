"""Diabetes: how far the disease has come in a year, by ten measures of the patient.

The study's smallest regression; scikit-learn ships the data.
"""

from adamqlr.jax import Fisher, Gaussian
from qlrstudy.data.bundled import bundled_dataset
from qlrstudy.models import MLP, plain
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Task
from qlrstudy.tasks.sampling import Examples


def _load(options: DataOptions) -> Dataset:
    del options
    # Imported here: it takes as long as all else that a command loads.
    from sklearn import datasets

    inputs, targets = datasets.load_diabetes(scaled=False, return_X_y=True)
    return bundled_dataset("diabetes", inputs, targets, regression=True)


_NETWORK = plain(MLP((50,), 1), (10,))

SCALES = {
    "paper": Task(
        name="diabetes",
        title="Diabetes",
        scale="paper",
        budget=Budget("epochs", 200),
        load=_load,
        examples=301,
        init=_NETWORK.init,
        predict=_NETWORK.predict,
        likelihood=Gaussian(),
        curvature=Fisher(),
        sampling=Examples(),
        evaluation_shape=BatchShape(1000),
        adam_batch=BatchShape(50),
    )
}
