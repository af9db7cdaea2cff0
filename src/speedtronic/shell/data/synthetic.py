"""The synthetic stream as tokens that can be read anywhere."""

import numpy as np
import torch
from torch import Tensor

from speedtronic.pure.data.synthetic import synthetic_tokens
from speedtronic.shell.data.mapped import Array


class SyntheticNumbers:
    """``size`` made-up ids below ``vocab_size``, computed when they are read."""

    def __init__(self, size: int, vocab_size: int, key: Tensor) -> None:
        self._size, self._vocab_size, self._key = size, vocab_size, key

    def __len__(self) -> int:
        return self._size

    def windows(self, starts: Array, length: int) -> Array:
        """The ``length`` ids from each start, i64[n, length]."""
        return self.take(np.asarray(starts)[:, None] + np.arange(length))

    def take(self, index: Array) -> Array:
        """The ids at ``index``, i64 of its shape."""
        where = torch.from_numpy(np.asarray(index, np.int64))
        return synthetic_tokens(where, self._vocab_size, self._key).numpy()
