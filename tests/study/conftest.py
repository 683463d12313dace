import os
from pathlib import Path

import pytest

from qlrstudy.spec import DataOptions


@pytest.fixture(scope="session")
def real_data() -> DataOptions:
    """The publishers' files, where they are at hand; partial sets will do."""
    beside = Path(__file__).parents[2].parent / "shared" / "data"
    directory = Path(os.environ.get("QLR_DATA") or beside)
    if not directory.is_dir():
        pytest.skip(f"no data: QLR_DATA is not set and there is no {beside}")
    return DataOptions(directory, partial=True)
