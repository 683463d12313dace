import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import settings

from qlrstudy.cluster import connection
from qlrstudy.spec import DataOptions

# Ray keeps what it finds as it is loaded, whichever test is the first to do so.
connection.prepare(None)

# The same cases in each run, and however long the machine takes over them.
settings.register_profile("study", deadline=None, derandomize=True)
settings.load_profile("study")


@pytest.fixture(scope="session")
def kfac_jax_installed() -> None:
    """K-FAC has an extra of its own, which the newest JAX excludes."""
    if importlib.util.find_spec("kfac_jax") is None:
        pytest.skip("kfac-jax is not installed: the extra `kfac`")


@pytest.fixture(scope="session")
def real_data() -> DataOptions:
    """The publishers' files, where they are at hand; partial sets will do."""
    beside = Path(__file__).parents[2].parent / "shared" / "data"
    directory = Path(os.environ.get("QLR_DATA") or beside)
    if not directory.is_dir():
        pytest.skip(f"no data: QLR_DATA is not set and there is no {beside}")
    return DataOptions(directory, partial=True)
