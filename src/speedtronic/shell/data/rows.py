"""Rows of a token source: from a visited row to inputs and labels.

Two steps, so that the first can be done for thousands of rows at once: `address`
computes where rows lie (integers only, with the pure functions), `read` copies
their tokens.
"""

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from speedtronic.pure.data.blocks import Cuts, starts

IGNORE = -100
Array = np.ndarray[Any, Any]


class Tokens(Protocol):
    """Tokens that can be read anywhere: a `Store`, or the synthetic stream."""

    @property
    def size(self) -> int:
        """Number of tokens."""
        ...

    @property
    def masked(self) -> bool:
        """Whether some tokens do not count as targets."""
        ...

    def windows(self, starts: Array, length: int) -> Array:
        """The ids of ``length`` tokens from each start, [n, length]."""
        ...

    def mask_windows(self, starts: Array, length: int) -> Array | None:
        """1 where the token counts as a target, or None if all do."""
        ...


class Rows(Protocol):
    """A source cut into rows of ``block`` positions."""

    rows: int  # per epoch

    def address(self, row: Tensor, epoch: Tensor, key: Tensor) -> Tensor:
        """Where rows lie, i64[n, k]; ``key`` i64[n, 2] belongs to the epochs."""
        ...

    def read(self, addresses: Array) -> tuple[Array, Array]:
        """Inputs and labels, i64[n, block] each."""
        ...


class BlockRows:
    """Rows cut at equal distances from the tokens ``first`` to ``stop``."""

    def __init__(
        self, tokens: Tokens, first: int, stop: int, block: int, moving: bool
    ) -> None:
        self._tokens, self._first = tokens, first
        self._cuts = Cuts(tokens=stop - first, block=block, moving=moving)
        self.rows = self._cuts.rows

    def address(self, row: Tensor, epoch: Tensor, key: Tensor) -> Tensor:
        """The first token of each row, i64[n, 1]."""
        return (self._first + starts(self._cuts, row, epoch, key)).unsqueeze(-1)

    def read(self, addresses: Array) -> tuple[Array, Array]:
        """Inputs and labels of the rows that start at ``addresses``."""
        return read_windows(self._tokens, addresses[:, 0], self._cuts.block)


def read_windows(tokens: Tokens, first: Array, block: int) -> tuple[Array, Array]:
    """Inputs and labels, i64[n, block]; labels that do not count are -100."""
    window = tokens.windows(first, block + 1)
    inputs, labels = window[:, :-1].astype(np.int64), window[:, 1:].astype(np.int64)
    counts = tokens.mask_windows(first + 1, block)
    if counts is not None:
        labels[counts == 0] = IGNORE
    return inputs, labels


def batch_of(inputs: Array, labels: Array) -> dict[str, Tensor]:
    """A causal batch that shares the arrays' memory."""
    return {
        "input_ids": torch.from_numpy(inputs),
        "labels": torch.from_numpy(labels),
    }
