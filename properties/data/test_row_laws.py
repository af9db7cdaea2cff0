"""Laws of rows: every token of a document once, blocks inside their stream."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from speedtronic.pure.data.blocks import Cuts, starts
from speedtronic.pure.data.documents import cut_documents, fill_slots, plan_rows
from speedtronic.pure.data.order import permute
from speedtronic.pure.random import fold_in, key_from_seed

LENGTHS = st.lists(st.integers(1, 60), max_size=60)
BLOCKS = st.integers(1, 20)


@given(lengths=LENGTHS, block=BLOCKS, seed=st.integers(0, 1000))
def test_documents_cover_every_target_once(
    lengths: list[int], block: int, seed: int
) -> None:
    """In each epoch every token but a document's first is a target exactly once."""
    ends = torch.tensor(lengths, dtype=torch.int64).cumsum(0)
    begins = ends - torch.tensor(lengths, dtype=torch.int64)
    pieces = cut_documents(begins, ends, block)
    plan = plan_rows(pieces.length, block)
    order = torch.arange(len(pieces.length))
    if len(order):
        order = permute(order, len(order), key_from_seed(seed))
    by_slot = fill_slots(pieces.length, order)
    targets: list[int] = []
    bounds = plan.first.tolist()
    for first, stop in zip(bounds[:-1], bounds[1:], strict=True):
        row = by_slot[plan.slot[first:stop]]
        for start, length in zip(pieces.start[row], pieces.length[row], strict=True):
            targets += range(int(start) + 1, int(start + length) + 1)

        assert 1 <= int(pieces.length[row].sum()) <= block

    expected = set(range(sum(lengths))) - set(begins.tolist())
    assert sorted(expected) == sorted(targets)


@given(lengths=LENGTHS, block=BLOCKS)
def test_rows_are_well_filled(lengths: list[int], block: int) -> None:
    """At most one row is less than half full."""
    ends = torch.tensor(lengths, dtype=torch.int64).cumsum(0)
    begins = ends - torch.tensor(lengths, dtype=torch.int64)
    pieces = cut_documents(begins, ends, block)
    plan = plan_rows(pieces.length, block)
    by_slot = fill_slots(pieces.length, torch.arange(len(pieces.length)))
    used = torch.stack(
        [
            pieces.length[by_slot[plan.slot[a:b]]].sum()
            for a, b in zip(plan.first[:-1], plan.first[1:], strict=True)
        ]
        or [torch.tensor(block)]
    )

    assert int((used * 2 < block).sum()) <= 1


@given(
    tokens=st.integers(0, 500),
    block=BLOCKS,
    moving=st.booleans(),
    epoch=st.integers(0, 50),
    seed=st.integers(0, 1000),
)
def test_blocks_lie_side_by_side_inside_the_stream(
    tokens: int, block: int, moving: bool, epoch: int, seed: int
) -> None:
    """Rows follow each other; what is left out is less than the rule says."""
    cuts = Cuts(tokens=tokens, block=block, moving=moving)
    rows = torch.arange(cuts.rows)
    epochs = torch.full_like(rows, epoch)
    found = starts(cuts, rows, epochs, fold_in(key_from_seed(seed), epochs)).tolist()
    if not found:
        assert tokens <= block
        return

    assert list(range(found[0], found[0] + cuts.rows * block, block)) == found
    assert 0 <= found[0] and found[-1] + block < tokens
    assert tokens - 1 - cuts.rows * block < (2 * block if moving else block)
