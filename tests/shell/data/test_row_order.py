"""Rows of steps: shares, resumption, periods."""

import numpy as np
import pytest
import torch
from torch import Tensor

from speedtronic.pure.data.position import Share
from speedtronic.pure.random import key_from_seed
from speedtronic.shell.data import row_order
from speedtronic.shell.data.row_order import RowOrder, Schedule


class Numbered:
    """Rows whose address is their number and epoch."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def address(self, row: Tensor, epoch: Tensor, key: Tensor) -> Tensor:
        """Number and epoch."""
        del key
        return torch.stack([row, epoch], dim=-1)


def order(rows: int | list[int], weights: list[float] | None = None, **fields: object):
    """A row order with small steps."""
    sizes = [rows] if isinstance(rows, int) else rows
    plan = {
        "key": key_from_seed(0),
        "share": Share(),
        "rank": 0,
        "ranks": 1,
        "micro_rows": 2,
        "step_rows": 2,
        "shuffle": True,
        "drop_last": True,
        **fields,
    }
    sources = [Numbered(size) for size in sizes]
    return RowOrder(sources, weights or [1.0] * len(sizes), Schedule(**plan))


def rows_of(found: RowOrder, steps: range) -> list[tuple[int, int]]:
    """(row, epoch) of each row of the steps, in order."""
    return [
        (int(row), int(epoch))
        for step in steps
        for places in found.micro_batches(step)
        for row, epoch in places.address
    ]


@pytest.mark.parametrize("shuffle", [True, False])
def test_each_epoch_has_every_row_once(shuffle: bool) -> None:
    """Ten rows in steps of two: five steps per epoch, three epochs."""
    found = rows_of(order(10, shuffle=shuffle), range(15))

    assert [0] * 10 + [1] * 10 + [2] * 10 == [epoch for _, epoch in found]
    for epoch in range(3):
        assert set(range(10)) == {row for row, e in found if e == epoch}


def test_epochs_have_different_orders() -> None:
    """The order of an epoch has a key of its own."""
    found = [row for row, _ in rows_of(order(10), range(15))]

    assert 3 == len({tuple(found[i : i + 10]) for i in (0, 10, 20)})


@pytest.mark.parametrize("drop_last", [True, False])
def test_resuming_at_any_step(drop_last: bool) -> None:
    """A new object that goes on from a cursor reads what the old one would have."""
    unbroken = rows_of(order(7, drop_last=drop_last), range(15))
    for step in range(15):
        cursor = order(7, drop_last=drop_last).cursor(step)
        resumed = order(7, drop_last=drop_last)
        resumed.go_on(cursor)

        assert unbroken[2 * step :] == rows_of(resumed, range(step, 15))


def test_resuming_with_another_batch() -> None:
    """The rows go on where they stopped."""
    unbroken = rows_of(order(12, drop_last=False), range(12))
    resumed = order(12, drop_last=False, step_rows=4)
    resumed.go_on(order(12, drop_last=False).cursor(3))

    assert (
        unbroken[6:] == [r for r in rows_of(resumed, range(3, 8))][: len(unbroken[6:])]
    )


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many rows are computed together changes none of them."""
    whole = rows_of(order([7, 5], [2.0, 1.0], step_rows=4), range(20))
    monkeypatch.setattr(row_order, "CHUNK_ROWS", 5)

    assert whole == rows_of(order([7, 5], [2.0, 1.0], step_rows=4), range(20))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_divide_a_step(ranks: int) -> None:
    """The micro-batches of a step go to the ranks in turn; together they are it."""
    alone = order(50, step_rows=8).micro_batches(3)
    shared = [
        order(50, step_rows=8, rank=rank, ranks=ranks).micro_batches(3)
        for rank in range(ranks)
    ]

    for number, places in enumerate(alone):
        mine = shared[number % ranks][number // ranks]

        assert places.address.tolist() == mine.address.tolist()
        assert places.walked.tolist() == mine.walked.tolist()


def test_nodes_read_different_rows() -> None:
    """In an epoch the nodes together read each row once."""
    found = [
        row
        for node in range(3)
        for row, epoch in rows_of(
            order(10, share=Share(node=node, nodes=3), drop_last=False), range(2)
        )
        if epoch == 0
    ]

    assert list(range(10)) == sorted(found)


def test_sources_keep_their_own_epochs() -> None:
    """A small source of a mixture begins again while a large one has not ended."""
    found = order([2, 100], [1.0, 1.0]).micro_batches
    places = [p for step in range(8) for p in found(step)]
    source = np.concatenate([p.source for p in places])
    address = np.concatenate([p.address for p in places])

    assert [0, 0, 1, 1, 2, 2, 3, 3] == address[source == 0][:, 1].tolist()
    assert {0} == set(address[source == 1][:, 1].tolist())


def test_a_period() -> None:
    """After so many steps the data starts again."""
    found = order(100, repeat_after=3)

    assert rows_of(found, range(3)) == rows_of(found, range(3, 6))
    assert found.cursor(1) == found.cursor(4)
