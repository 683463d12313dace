"""The paper's appendix B.6: what each part of an algorithm does for it.

The paper shows damping and curvature on Fashion-MNIST and CIFAR-10. The two tables of
UCI are beyond it, so that it has no hyperparameters for their ablations: there they are
tuned. They are cheap enough for all repetitions on any machine.
"""

from qlrstudy.studies.benchmark import TUNED, UNTUNED, epoch_constrained
from qlrstudy.studies.definition import Study

_IMAGES = ("fashion-mnist", "cifar-10")
_BEYOND = ("uci-energy", "uci-protein")
_REPRISE = ("uci-energy", "uci-protein", "fashion-mnist", "svhn")


def _ablation(
    name: str, title: str, tasks: tuple[str, ...], algorithms: tuple[str, ...]
) -> Study:
    arms = tuple(epoch_constrained(task, a) for task in tasks for a in algorithms)
    return Study(f"ablation-{name}", title, arms)


def _reprise(name: str, title: str, added: str) -> Study:
    return _ablation(name, title, _REPRISE, (*TUNED, *UNTUNED, added))


DAMPING = _ablation(
    "damping",
    "AdamQLR-paper with and without damping (UCI: beyond the paper)",
    _BEYOND + _IMAGES,
    ("adam", "adamqlr-tuned", "adamqlr-undamped"),
)
CURVATURE = _ablation(
    "curvature",
    "AdamQLR-paper with the Fisher and with the Hessian (UCI: beyond the paper)",
    _BEYOND + _IMAGES,
    ("adam", "adamqlr-tuned", "adamqlr-hessian"),
)
EPSILON = _reprise("epsilon", "Adam with its epsilon tuned", "adam-tuned-epsilon")
KFAC = _reprise("kfac", "K-FAC without its heuristics", "kfac-unadaptive")
BAYDIN = _reprise("baydin", "SGD that learns its learning rate", "baydin-sgd")
