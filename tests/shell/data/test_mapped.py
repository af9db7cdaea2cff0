"""Numbers mapped into memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from speedtronic.shell.data import mapped
from speedtronic.shell.data.mapped import Mapped


@pytest.fixture
def numbers(tmp_path: Path) -> Mapped:
    """A hundred numbers."""
    path = tmp_path / "numbers"
    np.arange(100, dtype="<u2").tofile(path)
    return Mapped(path, "uint16")


def test_windows_and_single_numbers(numbers: Mapped) -> None:
    """Both are copies of what is there."""
    assert [[3, 4, 5], [97, 98, 99]] == numbers.windows(np.array([3, 97]), 3).tolist()
    assert [[7], [1]] == numbers.take(np.array([[7], [1]])).tolist()
    assert 100 == len(numbers)


def test_giving_pages_back_changes_nothing(
    numbers: Mapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read after the pages were given back is the same."""
    monkeypatch.setattr(mapped, "KEEP_BYTES", 0)
    for start in (0, 50, 0):
        assert [[start]] == numbers.windows(np.array([start]), 1).tolist()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_large_file_does_not_stay_in_memory(tmp_path: Path) -> None:
    """A process that read 600 MB in random order has not 600 MB of it resident."""
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(600 * 2**20)
    program = """
import sys
from pathlib import Path
import numpy as np
from speedtronic.shell.data.mapped import Mapped

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

numbers = Mapped(Path(sys.argv[1]), "uint16")
before = peak()
starts = np.random.default_rng(0).permutation(len(numbers) // 2**10 - 1) * 2**10
for first in range(0, len(starts), 64):
    numbers.windows(starts[first : first + 64], 257)
sys.stdout.write(str(peak() - before))
"""
    command = [sys.executable, "-c", program, str(path)]
    told = subprocess.run(command, capture_output=True, check=True, timeout=120)

    assert int(told.stdout) < 200 * 2**10
