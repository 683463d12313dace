"""The algorithms, by the names they have on the command line."""

from qlrstudy.algorithms.adam import ADAM, ADAM_TUNED_EPSILON, ADAM_UNTUNED
from qlrstudy.algorithms.adamqlr import (
    ADAMQLR,
    ADAMQLR_HESSIAN,
    ADAMQLR_TUNED,
    ADAMQLR_UNDAMPED,
    ADAMQLR_UNTUNED,
    SGDQLR,
)
from qlrstudy.algorithms.baydin_sgd import BAYDIN_SGD
from qlrstudy.algorithms.kfac import KFAC, KFAC_UNADAPTIVE, KFAC_UNTUNED
from qlrstudy.algorithms.sgd import SGD_FULL, SGD_MINIMAL
from qlrstudy.spec import Algorithm

ALGORITHMS: dict[str, Algorithm] = {
    "sgd-minimal": SGD_MINIMAL,
    "sgd-full": SGD_FULL,
    "adam": ADAM,
    "adam-untuned": ADAM_UNTUNED,
    "adam-tuned-epsilon": ADAM_TUNED_EPSILON,
    "kfac": KFAC,
    "kfac-untuned": KFAC_UNTUNED,
    "kfac-unadaptive": KFAC_UNADAPTIVE,
    "baydin-sgd": BAYDIN_SGD,
    "adamqlr-tuned": ADAMQLR_TUNED,
    "adamqlr-untuned": ADAMQLR_UNTUNED,
    "adamqlr-hessian": ADAMQLR_HESSIAN,
    "adamqlr-undamped": ADAMQLR_UNDAMPED,
    "sgdqlr": SGDQLR,
    "adamqlr": ADAMQLR,
}
