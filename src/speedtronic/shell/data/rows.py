"""Rows of a token source: from a visited row to inputs and labels.

Two steps, so that the first can be done for thousands of rows at once: `address`
computes where rows lie (integers only, with the pure functions), `read` copies
their tokens.
"""

from functools import lru_cache
from typing import Protocol

import attrs
import numpy as np
import torch
from torch import Tensor

from speedtronic.pure.data.blocks import Cuts, starts
from speedtronic.pure.data.documents import cut_documents, fill_slots, plan_rows
from speedtronic.pure.data.order import permute
from speedtronic.pure.random import fold_in
from speedtronic.shell.data.numbers import Array, Numbers, ranges

IGNORE = -100  # a label that does not count for the loss
_PIECES = 0xD0C5  # separates the order of documents from the order of rows


@attrs.frozen(kw_only=True)
class Tokens:
    """A part of a token stream: what lies from ``first`` to before ``stop``."""

    name: str
    ids: Numbers
    mask: Numbers | None  # 1 where the token counts as a target; None if all do
    ends: Array  # i64[documents], where each document of the whole stream ends
    first: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.first


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
    """Rows cut at equal distances, whatever the documents."""

    def __init__(self, tokens: Tokens, block: int, moving: bool) -> None:
        self._tokens = tokens
        self._cuts = Cuts(tokens=len(tokens), block=block, moving=moving)
        self.rows = self._cuts.rows

    def address(self, row: Tensor, epoch: Tensor, key: Tensor) -> Tensor:
        """The first token of each row, i64[n, 1]."""
        first = self._tokens.first + starts(self._cuts, row, epoch, key)
        return first.unsqueeze(-1)

    def read(self, addresses: Array) -> tuple[Array, Array]:
        """Inputs and labels of the rows that start at ``addresses``."""
        return read_windows(self._tokens, addresses[:, 0], self._cuts.block)


class DocumentRows:
    """Whole documents packed into rows; the free end of a row is ignored.

    Args:
        tokens: the stream and its documents.
        block: positions per row.
        key: i64[2] that permutes the documents, or None to leave their order.
    """

    def __init__(self, tokens: Tokens, block: int, key: Tensor | None) -> None:
        self._tokens, self._block, self._key = tokens, block, key
        ends = tokens.ends[tokens.ends > tokens.first]
        ends = np.unique(np.minimum(ends, tokens.stop))
        begins = np.concatenate([[tokens.first], ends[:-1]])
        pieces = cut_documents(torch.from_numpy(begins), torch.from_numpy(ends), block)
        self._start, self._length = pieces.start, pieces.length
        self._plan = plan_rows(pieces.length, block)
        self.rows = self._plan.rows
        self._by_document = self._rows_by_document()
        self._filled = lru_cache(maxsize=2)(self._fill)

    def address(self, row: Tensor, epoch: Tensor, key: Tensor) -> Tensor:
        """Epoch and row of the plan, i64[n, 2]."""
        del key
        return torch.stack([epoch, self._by_document[row]], dim=-1)

    def read(self, addresses: Array) -> tuple[Array, Array]:
        """Inputs and labels; inputs of ignored positions are 0."""
        inputs = np.zeros((len(addresses), self._block), np.int64)
        labels = np.full_like(inputs, IGNORE)
        for epoch in np.unique(addresses[:, 0]):
            mine = np.flatnonzero(addresses[:, 0] == epoch)
            place, start, length = self._pieces(addresses[mine, 1], int(epoch))
            at = mine[place // self._block], place % self._block
            inputs[at] = self._tokens.ids.spans(start, length)
            targets = self._tokens.ids.spans(start + 1, length).astype(np.int64)
            if self._tokens.mask is not None:
                targets[self._tokens.mask.spans(start + 1, length) == 0] = IGNORE
            labels[at] = targets
        return inputs, labels

    def _pieces(self, rows: Array, epoch: int) -> tuple[Array, Array, Array]:
        """Where each position of rows goes (flat); start and length of their pieces."""
        first = self._plan.first.numpy()
        counts = first[rows + 1] - first[rows]
        slot = self._plan.slot.numpy()[ranges(first[rows], counts)]
        piece = self._filled(epoch)[slot]
        length = self._length.numpy()[piece]
        used = np.add.reduceat(length, np.cumsum(counts) - counts)
        place = ranges(np.arange(len(rows)) * self._block, used)
        return place, self._start.numpy()[piece], length

    def _fill(self, epoch: int) -> Array:
        order = torch.arange(len(self._length))
        if self._key is not None and len(order):
            key = fold_in(fold_in(self._key, epoch), _PIECES)
            order = permute(order, len(order), key)
        return fill_slots(self._length, order).numpy()

    def _rows_by_document(self) -> Tensor:
        """The rows of the plan in the order of their first pieces."""
        stored = fill_slots(self._length, torch.arange(len(self._length)))
        leading = stored[self._plan.slot[self._plan.first[:-1]]]
        return torch.argsort(leading)


def read_windows(tokens: Tokens, first: Array, block: int) -> tuple[Array, Array]:
    """Inputs and labels, i64[n, block]; labels that do not count are -100."""
    window = tokens.ids.windows(first, block + 1)
    inputs, labels = window[:, :-1].astype(np.int64), window[:, 1:].astype(np.int64)
    if tokens.mask is not None:
        labels[tokens.mask.windows(first + 1, block) == 0] = IGNORE
    return inputs, labels


def batch_of(inputs: Array, labels: Array) -> dict[str, Tensor]:
    """A causal batch that shares the arrays' memory."""
    return {
        "input_ids": torch.from_numpy(inputs),
        "labels": torch.from_numpy(labels),
    }
