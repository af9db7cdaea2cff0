"""Rows read from token sources."""

import numpy as np
import pytest
import torch

from speedtronic.pure.random import fold_in, key_from_seed
from speedtronic.shell.data.numbers import Array, ranges
from speedtronic.shell.data.rows import BlockRows, DocumentRows, Rows, Tokens

KEY = key_from_seed(5)


class Held:
    """Numbers in memory."""

    def __init__(self, values: list[int]) -> None:
        self._values = np.array(values)

    def __len__(self) -> int:
        return len(self._values)

    def windows(self, starts: Array, length: int) -> Array:
        """The numbers from each start."""
        return self._values[starts[:, None] + np.arange(length)]

    def spans(self, starts: Array, lengths: Array) -> Array:
        """The numbers of all spans."""
        return self._values[ranges(starts, lengths)]


def tokens(
    ends: list[int],
    first: int = 0,
    stop: int | None = None,
    mask: list[int] | None = None,
) -> Tokens:
    """Tokens that are their own positions, from 100 on."""
    size = ends[-1]
    return Tokens(
        name="numbers",
        ids=Held(list(range(100, 100 + size))),
        mask=None if mask is None else Held(mask),
        ends=np.array(ends),
        first=first,
        stop=size if stop is None else stop,
    )


def read_epoch(rows: Rows, epoch: int = 0) -> tuple[list[list[int]], list[list[int]]]:
    """Inputs and labels of all rows of an epoch."""
    row = torch.arange(rows.rows)
    epochs = torch.full_like(row, epoch)
    found = rows.read(rows.address(row, epochs, fold_in(KEY, epochs)).numpy())
    return found[0].tolist(), found[1].tolist()


def test_blocks_of_a_part() -> None:
    """Nothing outside the part is read."""
    inputs, labels = read_epoch(BlockRows(tokens([20], 5, 14), 4, moving=False))

    assert [[105, 106, 107, 108], [109, 110, 111, 112]] == inputs
    assert [[106, 107, 108, 109], [110, 111, 112, 113]] == labels


def test_masked_targets_are_ignored() -> None:
    """Where the mask of the target is 0 the label is -100."""
    _, labels = read_epoch(
        BlockRows(tokens([5], mask=[1, 1, 0, 0, 1]), 4, moving=False)
    )

    assert [[101, -100, -100, 104]] == labels


def test_documents_are_not_joined() -> None:
    """No target crosses from one document to the next; free places are ignored."""
    inputs, labels = read_epoch(DocumentRows(tokens([3, 6, 8]), 4, None))

    assert [[100, 101, 103, 104], [106, 0, 0, 0]] == inputs
    assert [[101, 102, 104, 105], [107, -100, -100, -100]] == labels


def test_a_long_document_goes_on_in_the_next_row() -> None:
    """Its pieces leave no gap."""
    inputs, labels = read_epoch(DocumentRows(tokens([7]), 4, None))

    assert [[100, 101, 102, 103], [104, 105, 0, 0]] == inputs
    assert [[101, 102, 103, 104], [105, 106, -100, -100]] == labels


def test_documents_of_a_part() -> None:
    """A document that the part cuts is as long as what is left of it."""
    _, labels = read_epoch(DocumentRows(tokens([4, 8, 12], 2, 10), 4, None))
    targets = sorted(t for row in labels for t in row if t != -100)

    assert [103, 105, 106, 107, 109] == targets


def test_masks_of_documents() -> None:
    """A document's masked targets are ignored."""
    rows = DocumentRows(tokens([5], mask=[0, 0, 0, 1, 1]), 4, None)

    assert [[-100, -100, 103, 104]] == read_epoch(rows)[1]


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_documents_change_places(epoch: int) -> None:
    """Every epoch has all targets once, in other company."""
    ends = list(range(3, 63, 3))
    rows = DocumentRows(tokens(ends), 8, KEY)
    inputs, labels = read_epoch(rows, epoch)
    other = read_epoch(rows, epoch + 1)[0]
    firsts = {100, *(100 + end for end in ends[:-1])}

    assert sorted(set(range(100, 160)) - firsts) == sorted(
        t for row in labels for t in row if t != -100
    )
    assert {frozenset(row) for row in inputs} != {frozenset(row) for row in other}


def test_rows_of_several_epochs_together() -> None:
    """A batch that crosses into the next epoch reads each row in its own."""
    rows = DocumentRows(tokens(list(range(3, 33, 3))), 4, KEY)
    address = np.array([[0, 1], [1, 0], [0, 2], [1, 1]])
    together = rows.read(address)[0].tolist()

    assert together == [rows.read(address[i : i + 1])[0][0].tolist() for i in range(4)]
