"""The algorithms, by the names they have on the command line."""

from qlrstudy.algorithms.adam import (
    ADAM,
    ADAM_AVERAGE,
    ADAM_TUNED_EPSILON,
    ADAM_UNTUNED,
)
from qlrstudy.algorithms.adamqlr import (
    ADAMQLR,
    ADAMQLR_HESSIAN,
    ADAMQLR_QUARTER,
    ADAMQLR_TUNED,
    ADAMQLR_UNDAMPED,
    ADAMQLR_UNTUNED,
    SGDQLR,
)
from qlrstudy.algorithms.adamw_cosine import ADAMW_COSINE
from qlrstudy.algorithms.baydin_sgd import BAYDIN_SGD
from qlrstudy.algorithms.dog import DOG, DOWG
from qlrstudy.algorithms.kfac import KFAC, KFAC_UNADAPTIVE, KFAC_UNTUNED
from qlrstudy.algorithms.mechanic import MECHANIC_ADAM
from qlrstudy.algorithms.muon import MUON
from qlrstudy.algorithms.polyak import MOMO_ADAM, POLYAK_SGD
from qlrstudy.algorithms.prodigy import (
    DADAPT_ADAM,
    PRODIGY,
    PRODIGY_AVERAGE,
    PRODIGY_COSINE,
)
from qlrstudy.algorithms.schedule_free import SCHEDULE_FREE_ADAM, SCHEDULE_FREE_AVERAGE
from qlrstudy.algorithms.sgd import SGD_FULL, SGD_MINIMAL
from qlrstudy.algorithms.sophia import SOPHIA
from qlrstudy.spec import Algorithm

ALGORITHMS: dict[str, Algorithm] = {
    "sgd-minimal": SGD_MINIMAL,
    "sgd-full": SGD_FULL,
    "adam": ADAM,
    "adam-untuned": ADAM_UNTUNED,
    "adam-tuned-epsilon": ADAM_TUNED_EPSILON,
    "adam-average": ADAM_AVERAGE,
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
    "adamqlr-quarter": ADAMQLR_QUARTER,
    "adamw-cosine": ADAMW_COSINE,
    "prodigy": PRODIGY,
    "prodigy-cosine": PRODIGY_COSINE,
    "prodigy-average": PRODIGY_AVERAGE,
    "dadapt-adam": DADAPT_ADAM,
    "schedule-free-adam": SCHEDULE_FREE_ADAM,
    "schedule-free-average": SCHEDULE_FREE_AVERAGE,
    "momo-adam": MOMO_ADAM,
    "dog": DOG,
    "dowg": DOWG,
    "mechanic-adam": MECHANIC_ADAM,
    "polyak-sgd": POLYAK_SGD,
    "muon": MUON,
    "sophia": SOPHIA,
}
