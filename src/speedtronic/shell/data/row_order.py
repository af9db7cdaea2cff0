"""Which rows of which sources a rank reads in a step.

Positions are pure functions of the step; here they are evaluated for thousands of
rows at once and kept for the steps that follow.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import attrs
import numpy as np
import torch
from torch import Tensor

from speedtronic.pure.data.mixture import deal, shares
from speedtronic.pure.data.order import LARGEST, permute
from speedtronic.pure.data.position import Cursor, Share, cursor_at, usable, walk
from speedtronic.pure.random import fold_in
from speedtronic.shell.data.numbers import Array

CHUNK_STEPS = 128  # steps whose places are computed together ...
CHUNK_ROWS = 2**14  # ... but no more rows than these, or one step's


class Addressed(Protocol):
    """Rows that have addresses: integers from which they can be read."""

    rows: int  # per epoch

    def address(self, row: Tensor, epoch: Tensor, key: Tensor) -> Tensor:
        """Where rows lie, i64[n, 1 or 2]; ``key`` i64[n, 2] belongs to the epochs."""
        ...


@attrs.frozen(kw_only=True)
class Schedule:
    """How this rank takes rows: everything that a position is a function of."""

    key: Tensor  # i64[2], of the data order
    share: Share
    rank: int
    ranks: int
    micro_rows: int
    step_rows: int  # of the node: all its ranks together
    shuffle: bool
    drop_last: bool
    repeat_after: int | None = None  # steps

    def source_key(self, number: int) -> Tensor:
        """The key of a source's order, i64[2]."""
        return fold_in(self.key, number)


@attrs.frozen
class Places:
    """Rows of one micro-batch: where they stand in the walk, and where they lie."""

    walked: Array  # i64[n]
    source: Array  # i64[n]
    address: Array  # i64[n, 2]


class RowOrder:
    """The rows of each step.

    Args:
        sources: at least one, each with a row in this node's share.
        weights: of the sources.
        schedule: how rows are taken.
    """

    def __init__(
        self,
        sources: Sequence[Addressed],
        weights: Sequence[float],
        schedule: Schedule,
    ) -> None:
        self._sources, self._schedule = sources, schedule
        self._parts = shares(weights)
        self._share_rows = [schedule.share.places(s.rows) for s in sources]
        single = len(sources) == 1
        self._rows = self._share_rows[0] if single else LARGEST
        self._drop_last = schedule.drop_last and single
        step_rows = schedule.step_rows
        self._size = max(step_rows, min(CHUNK_ROWS, CHUNK_STEPS * step_rows))
        self._chunk = lru_cache(maxsize=4)(self._compute_chunk)
        self._start = Cursor()

    def cursor(self, step: int) -> Cursor:
        """The position at the start of ``step``."""
        rows, step = self._schedule.step_rows, self._in_period(step)
        return cursor_at(self._start, step, rows, self._rows, self._drop_last)

    def go_on(self, saved: Cursor) -> None:
        """Continue from a cursor, also if a step takes another number of rows now."""
        if self.cursor(saved.step) != saved:
            self._start = saved

    def micro_batches(self, step: int) -> list[Places]:
        """The micro-batches of this rank in ``step``."""
        plan, step = self._schedule, self._in_period(step)
        walked = walk(self._start, step, plan.step_rows, self._rows, self._drop_last)
        rows = self._places(int(walked[0]), plan.step_rows)
        parts = [
            slice(first, first + plan.micro_rows)
            for first in range(0, plan.step_rows, plan.micro_rows)
        ]
        return [
            Places(rows.walked[part], rows.source[part], rows.address[part])
            for part in parts[plan.rank :: plan.ranks]
        ]

    def _in_period(self, step: int) -> int:
        period = self._schedule.repeat_after
        return step if period is None else step % period

    def _places(self, first: int, count: int) -> Places:
        """The places of ``count`` rows from the walk's row ``first`` on."""
        found, size = [], self._size
        for number in range(first // size, (first + count - 1) // size + 1):
            source, address = self._chunk(number)
            begin = max(0, first - number * size)
            end = min(size, first + count - number * size)
            found.append((source[begin:end], address[begin:end]))
        sources, addresses = zip(*found, strict=True)
        walked = np.arange(first, first + count)
        return Places(walked, np.concatenate(sources), np.concatenate(addresses))

    def _compute_chunk(self, number: int) -> tuple[Array, Array]:
        walked = number * self._size + torch.arange(self._size)
        source, draw = deal(walked, self._parts)
        addresses = torch.zeros(self._size, 2, dtype=torch.int64)
        for index in range(len(self._sources)):
            mine = source == index
            found = self._addresses(index, draw[mine])
            addresses[mine, : found.shape[1]] = found
        return source.numpy(), addresses.numpy()

    def _addresses(self, index: int, draw: Tensor) -> Tensor:
        plan, rows = self._schedule, self._sources[index].rows
        length = usable(self._share_rows[index], plan.step_rows, self._drop_last)
        epoch = draw // length
        place = draw % length * plan.share.nodes + plan.share.node
        key = fold_in(plan.source_key(index), epoch)
        row = permute(place, rows, key) if plan.shuffle else place
        return self._sources[index].address(row, epoch, key)
