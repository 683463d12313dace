"""Digits: handwritten ones of 8 x 8 pixels.

The study's smallest classification; scikit-learn ships the data.
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

    inputs, targets = datasets.load_digits(return_X_y=True)
    return bundled_dataset("digits", inputs, targets, regression=False)


_NETWORK = plain(MLP((50,), 10), (64,))

SCALES = {
    "paper": Task(
        name="digits",
        title="Digits",
        scale="paper",
        budget=Budget("epochs", 50),
        load=_load,
        examples=1_222,
        init=_NETWORK.init,
        predict=_NETWORK.predict,
        likelihood=Categorical(),
        curvature=Fisher(),
        sampling=Examples(),
        evaluation_shape=BatchShape(2000),
        adam_batch=BatchShape(50),
        accuracy=hits,
    )
}
