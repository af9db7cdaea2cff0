"""Rows cut from a stream at equal distances."""

import pytest
import torch

from speedtronic.pure.data.blocks import Cuts, starts
from speedtronic.pure.random import fold_in, key_from_seed
from speedtronic.testing.purity import check_pure


def row_starts(cuts: Cuts, epoch: int) -> list[int]:
    """Where the rows of an epoch start."""
    rows = torch.arange(cuts.rows)
    epochs = torch.full_like(rows, epoch)
    return starts(cuts, rows, epochs, fold_in(key_from_seed(0), epochs)).tolist()


@pytest.mark.parametrize("moving", [True, False])
@pytest.mark.parametrize(("tokens", "rows"), [(0, 0), (8, 0), (9, 1), (16, 1)])
def test_short_streams(tokens: int, rows: int, moving: bool) -> None:
    """A row of 8 positions needs 9 tokens, in both modes."""
    assert rows == Cuts(tokens=tokens, block=8, moving=moving).rows


def test_fixed_cuts() -> None:
    """Fixed rows share one token with the next and start at 0 in every epoch."""
    cuts = Cuts(tokens=26, block=8, moving=False)

    assert [0, 8, 16] == row_starts(cuts, 0) == row_starts(cuts, 5)


def test_moving_cuts_start_at_zero_once() -> None:
    """The first epoch starts at 0, later ones elsewhere."""
    cuts = Cuts(tokens=100, block=8, moving=True)
    firsts = [row_starts(cuts, epoch)[0] for epoch in range(50)]

    assert 0 == firsts[0]
    assert set(range(8)) == set(firsts)


@pytest.mark.parametrize("tokens", range(9, 40))
def test_rows_stay_inside_the_stream(tokens: int) -> None:
    """No row reads beyond the last token, whatever the offset."""
    cuts = Cuts(tokens=tokens, block=8, moving=True)
    for epoch in range(30):
        found = row_starts(cuts, epoch)

        assert 0 <= found[0] and found[-1] + 8 < tokens
        assert list(range(found[0], found[0] + 8 * cuts.rows, 8)) == found


def test_cutting_is_pure() -> None:
    """No input is written."""
    cuts = Cuts(tokens=50, block=8, moving=True)
    check_pure(
        lambda row, key: starts(cuts, row, torch.ones(3, dtype=torch.int64), key),
        torch.arange(3),
        key_from_seed(0).expand(3, 2),
    )
