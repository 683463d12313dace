"""SVHN: digits cut out of photographs of house numbers."""

from qlrstudy.data import read_set
from qlrstudy.data.registry import SVHN
from qlrstudy.spec import DataOptions
from qlrstudy.tasks.photographs import Photographs, scales


def _read(options: DataOptions) -> Photographs:
    reading = read_set(SVHN, options)
    train, test = (reading.contents[f"{part}_32x32.mat"] for part in ("train", "test"))
    return Photographs(train, test, reading)


SCALES = scales(
    "svhn",
    "SVHN",
    _read,
    images=73_257,
    validation=1 / 6,
    epochs=10,
    adam_batch=256,
    evaluations=5,
)
