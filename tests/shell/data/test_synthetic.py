"""The synthetic stream as numbers."""

import numpy as np

from speedtronic.pure.random import key_from_seed
from speedtronic.shell.data.synthetic import SyntheticNumbers


def test_windows_and_spans_are_the_same_stream() -> None:
    """A number is the same however it is read."""
    numbers = SyntheticNumbers(1000, 50, key_from_seed(0))
    windows = numbers.windows(np.array([5, 900]), 3)
    spans = numbers.spans(np.array([900, 5]), np.array([2, 3]))

    assert 1000 == len(numbers)
    assert [*windows[1, :2].tolist(), *windows[0].tolist()] == spans.tolist()
