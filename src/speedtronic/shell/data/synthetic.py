"""The synthetic stream as tokens that can be read anywhere."""

import numpy as np
import torch
from torch import Tensor

from speedtronic.pure.data.synthetic import synthetic_tokens
from speedtronic.shell.data.numbers import Array, ranges


class SyntheticNumbers:
    """``size`` made-up ids below ``vocab_size``, computed when they are read."""

    def __init__(self, size: int, vocab_size: int, key: Tensor) -> None:
        self._size, self._vocab_size, self._key = size, vocab_size, key

    def __len__(self) -> int:
        return self._size

    def windows(self, starts: Array, length: int) -> Array:
        """The ``length`` ids from each start, i64[n, length]."""
        return self._take(starts[:, None] + np.arange(length))

    def spans(self, starts: Array, lengths: Array) -> Array:
        """The ids from each start, as many as its length, end to end."""
        return self._take(ranges(starts, lengths))

    def _take(self, index: Array) -> Array:
        where = torch.from_numpy(index)
        return synthetic_tokens(where, self._vocab_size, self._key).numpy()
