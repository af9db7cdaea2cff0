"""Token sources mixed into one endless sequence of rows, read step by step."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
import torch
from torch import Tensor

from speedtronic.pure.data.mixture import deal, shares
from speedtronic.pure.data.order import LARGEST, permute
from speedtronic.pure.data.position import Cursor, Share, cursor_at, usable, walk
from speedtronic.pure.random import fold_in
from speedtronic.shell.data.rows import Rows, batch_of

CHUNK = 2**14  # rows whose places are computed together
Array = np.ndarray[Any, Any]
Batch = Any  # a pytree of CPU tensors


@attrs.frozen
class StepBatch:
    """What one rank reads in one step; counts are Python integers."""

    micro_batches: tuple[Batch, ...]
    samples: int  # rows
    tokens: int  # targets that count for the loss


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


class RowStream:
    """The rows of each step, as places in sources.

    Args:
        sources: at least one; each with at least one row in this node's share.
        weights: the sources' weights.
        block: positions per row.
        schedule: how rows are taken.
    """

    def __init__(
        self,
        sources: Sequence[Rows],
        weights: Sequence[float],
        block: int,
        schedule: Schedule,
    ) -> None:
        self._sources, self._block, self._schedule = sources, block, schedule
        self._parts = shares(weights)
        self._share_rows = [schedule.share.places(s.rows) for s in sources]
        single = len(sources) == 1
        self._rows = self._share_rows[0] if single else LARGEST
        self._drop_last = schedule.drop_last and single
        self._chunk = lru_cache(maxsize=4)(self._compute_chunk)
        self.start = Cursor()

    def cursor(self, step: int) -> Cursor:
        """The position at the start of ``step``."""
        rows = self._schedule.step_rows
        return cursor_at(self.start, step, rows, self._rows, self._drop_last)

    def step(self, step: int) -> StepBatch:
        """The micro-batches of this rank in ``step``."""
        plan = self._schedule
        walked = walk(self.start, step, plan.step_rows, self._rows, self._drop_last)
        sources, addresses = self._places(int(walked[0]), plan.step_rows)
        batches = []
        tokens = 0
        firsts = range(0, plan.step_rows, plan.micro_rows)
        for first in firsts[plan.rank :: plan.ranks]:
            part = slice(first, first + plan.micro_rows)
            inputs, labels = self._read(sources[part], addresses[part])
            tokens += int((labels >= 0).sum())
            batches.append(batch_of(inputs, labels))
        return StepBatch(tuple(batches), plan.micro_rows * len(batches), tokens)

    def _read(self, sources: Array, addresses: Array) -> tuple[Array, Array]:
        if len(self._sources) == 1:
            return self._sources[0].read(addresses)
        inputs = np.empty((len(sources), self._block), np.int64)
        labels = np.empty_like(inputs)
        for number in np.unique(sources):
            mine = sources == number
            inputs[mine], labels[mine] = self._sources[number].read(addresses[mine])
        return inputs, labels

    def _places(self, first: int, count: int) -> tuple[Array, Array]:
        """Source and address of ``count`` rows from the walk's row ``first``."""
        found = []
        for number in range(first // CHUNK, (first + count - 1) // CHUNK + 1):
            sources, addresses = self._chunk(number)
            begin = max(0, first - number * CHUNK)
            end = min(CHUNK, first + count - number * CHUNK)
            found.append((sources[begin:end], addresses[begin:end]))
        if len(found) == 1:
            return found[0]
        return np.concatenate([f[0] for f in found]), np.concatenate(
            [f[1] for f in found]
        )

    def _compute_chunk(self, number: int) -> tuple[Array, Array]:
        walked = number * CHUNK + torch.arange(CHUNK)
        source, draw = deal(walked, self._parts)
        addresses = torch.zeros(CHUNK, 2, dtype=torch.int64)
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
        key = fold_in(fold_in(plan.key, index), epoch)
        row = permute(place, rows, key) if plan.shuffle else place
        return self._sources[index].address(row, epoch, key)


def steps(data: Any, first: int) -> Iterator[StepBatch]:
    """The steps of ``data`` from ``first`` on, without end."""
    while True:
        yield data.train_batch(first)
        first += 1
