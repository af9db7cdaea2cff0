"""What every test stands on: keys of nodes are made in a folder of the test session."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Never in the home folder of whoever runs the tests; processes inherit it."""
    folder = tmp_path_factory.mktemp("keys")
    before = os.environ.get("SPEEDTRONIC_KEYS")
    os.environ["SPEEDTRONIC_KEYS"] = str(folder)
    yield folder
    if before is None:
        del os.environ["SPEEDTRONIC_KEYS"]
    else:
        os.environ["SPEEDTRONIC_KEYS"] = before
