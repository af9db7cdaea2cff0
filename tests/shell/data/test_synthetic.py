"""The synthetic stream as numbers."""

import numpy as np

from speedtronic.pure.random import key_from_seed
from speedtronic.shell.data.synthetic import SyntheticNumbers


def test_windows_are_what_is_taken() -> None:
    """A window is the numbers from its start, wherever it is read."""
    numbers = SyntheticNumbers(1000, 50, key_from_seed(0))
    windows = numbers.windows(np.array([5, 900]), 3)

    assert 1000 == len(numbers)
    assert windows.tolist() == [
        numbers.take(np.arange(start, start + 3)).tolist() for start in (5, 900)
    ]
