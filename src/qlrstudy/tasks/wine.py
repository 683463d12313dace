"""Wine: which of three growers it is from, by thirteen measures of it.

The smallest classification of all; scikit-learn ships the data.
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

    inputs, targets = datasets.load_wine(return_X_y=True)
    return bundled_dataset("wine", inputs, targets, regression=False)


_NETWORK = plain(MLP((30, 30), 3), (13,))

SCALES = {
    "paper": Task(
        name="wine",
        title="Wine",
        scale="paper",
        budget=Budget("epochs", 50),
        load=_load,
        examples=121,
        init=_NETWORK.init,
        predict=_NETWORK.predict,
        likelihood=Categorical(),
        curvature=Fisher(),
        sampling=Examples(),
        evaluation_shape=BatchShape(200),
        adam_batch=BatchShape(30),
        accuracy=hits,
    )
}
