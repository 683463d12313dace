"""The tasks, by the names they have on the command line; each at its scales."""

from qlrstudy.spec import Task
from qlrstudy.tasks import (
    cifar_10,
    diabetes,
    digits,
    fashion_mnist,
    penn_treebank,
    penn_treebank_characters,
    rosenbrock,
    svhn,
    uci_energy,
    uci_protein,
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
}
