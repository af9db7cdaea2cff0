"""Numbers of a file, read where they lie."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from speedtronic.errors import DataError
from speedtronic.shell.data.numbers import FileNumbers


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of a hundred numbers."""
    np.arange(100, dtype="<u2").tofile(tmp_path / "numbers")
    return tmp_path / "numbers"


def test_windows_and_spans(path: Path) -> None:
    """Windows have one length, spans lengths of their own."""
    numbers = FileNumbers(path, "uint16")
    starts = np.array([3, 97])

    assert 100 == len(numbers)
    assert [[3, 4, 5], [97, 98, 99]] == numbers.windows(starts, 3).tolist()
    assert [3, 97, 98] == numbers.spans(starts, np.array([1, 2])).tolist()


def test_a_file_that_is_cut_short(path: Path) -> None:
    """It is named; the process lives."""
    numbers = FileNumbers(path, "uint16")
    path.write_bytes(b"")
    with pytest.raises(DataError, match="numbers became shorter while it was in use"):
        numbers.windows(np.array([3]), 3)
    with pytest.raises(DataError, match="numbers became shorter"):
        numbers.spans(np.array([3]), np.array([1]))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_large_file_does_not_stay_in_memory(tmp_path: Path) -> None:
    """A process that read 300 MB in random order has not 300 MB of it resident."""
    path = tmp_path / "large"
    np.zeros(150 * 2**20, np.uint16).tofile(path)
    program = """
import sys
from pathlib import Path
import numpy as np
from speedtronic.shell.data.numbers import FileNumbers

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

numbers = FileNumbers(Path(sys.argv[1]), "uint16")
before = peak()
starts = np.random.default_rng(0).permutation(len(numbers) // 2**10 - 1) * 2**10
for first in range(0, len(starts), 64):
    numbers.windows(starts[first : first + 64], 257)
sys.stdout.write(str(peak() - before))
"""
    command = [sys.executable, "-c", program, str(path)]
    told = subprocess.run(command, capture_output=True, check=True, timeout=120)

    assert int(told.stdout) < 50 * 2**10
