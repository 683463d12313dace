"""Breast cancer: whether a tumour is malignant, by thirty measures of its cells.

A small classification of two classes; scikit-learn ships the data.
"""

from adamqlr.jax import Categorical, Fisher
from qlrstudy.data.bundled import bundled_dataset
from qlrstudy.models import MLP, hits, plain
from qlrstudy.spec import BatchShape, Budget, DataOptions, Dataset, Task
from qlrstudy.tasks.sampling import Examples


def _load(options: DataOptions) -> Dataset:
    del options
    # Imported here: it takes as long as all else that a command loads.
    from sklearn import datasets

    inputs, targets = datasets.load_breast_cancer(return_X_y=True)
    return bundled_dataset("breast-cancer", inputs, targets, regression=False)


_NETWORK = plain(MLP((40,), 2), (30,))

SCALES = {
    "paper": Task(
        name="breast-cancer",
        title="Breast cancer",
        scale="paper",
        budget=Budget("epochs", 50),
        load=_load,
        examples=387,
        init=_NETWORK.init,
        predict=_NETWORK.predict,
        likelihood=Categorical(),
        curvature=Fisher(),
        sampling=Examples(),
        evaluation_shape=BatchShape(500),
        adam_batch=BatchShape(50),
        accuracy=hits,
    )
}
