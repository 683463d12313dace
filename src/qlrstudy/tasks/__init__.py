"""The tasks, by the names they have on the command line; each at its scales."""

from qlrstudy.spec import Task
from qlrstudy.tasks import (
    breast_cancer,
    cifar_10,
    diabetes,
    digits,
    fashion_mnist,
    penn_treebank,
    penn_treebank_characters,
    python_manual,
    python_manual_characters,
    rosenbrock,
    svhn,
    svhn_grey,
    uci_energy,
    uci_protein,
    uci_protein_area,
    wine,
)

TASKS: dict[str, dict[str, Task]] = {
    "rosenbrock": rosenbrock.SCALES,
    "diabetes": diabetes.SCALES,
    "digits": digits.SCALES,
    "uci-energy": uci_energy.SCALES,
    "uci-protein": uci_protein.SCALES,
    "fashion-mnist": fashion_mnist.SCALES,
    "svhn": svhn.SCALES,
    "cifar-10": cifar_10.SCALES,
    "penn-treebank": penn_treebank.SCALES,
    "penn-treebank-characters": penn_treebank_characters.SCALES,
    "breast-cancer": breast_cancer.SCALES,
    "wine": wine.SCALES,
    "uci-protein-area": uci_protein_area.SCALES,
    "svhn-grey": svhn_grey.SCALES,
    "python-manual": python_manual.SCALES,
    "python-manual-characters": python_manual_characters.SCALES,
}
