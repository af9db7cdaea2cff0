"""Laws of the order: bijection, and each place visited once by somebody."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from speedtronic.pure.data.order import LARGEST, permute
from speedtronic.pure.data.position import Cursor, Share, cursor_at, usable, walk
from speedtronic.pure.random import key_from_seed

SEEDS = st.integers(0, 2**63 - 1)


@given(size=st.integers(1, 3000), seed=SEEDS)
def test_a_bijection_for_any_size_and_key(size: int, seed: int) -> None:
    """Every place is sent to exactly one row."""
    image = permute(torch.arange(size), size, key_from_seed(seed))

    assert list(range(size)) == sorted(image.tolist())


@given(size=st.integers(2, LARGEST), seed=SEEDS, data=st.data())
def test_injective_in_huge_ranges(size: int, seed: int, data: st.DataObject) -> None:
    """Different places go to different rows of the range."""
    places = st.lists(st.integers(0, size - 1), min_size=2, max_size=40, unique=True)
    index = torch.tensor(data.draw(places))
    image = permute(index, size, key_from_seed(seed))

    assert len(index) == len(set(image.tolist()))
    assert bool(((image >= 0) & (image < size)).all())


@given(
    rows=st.integers(1, 400),
    nodes=st.integers(1, 7),
    ranks=st.integers(1, 4),
    workers=st.integers(1, 5),
    micro=st.integers(1, 5),
    accumulate=st.integers(1, 3),
    drop_last=st.booleans(),
)
def test_disjoint_cover(
    rows: int,
    nodes: int,
    ranks: int,
    workers: int,
    micro: int,
    accumulate: int,
    drop_last: bool,
) -> None:
    """Over nodes, ranks and workers an epoch's places are visited once each.

    The remainder rule: with drop_last, what is left of a share after its last full
    step is left out, and nothing else is.
    """
    step_rows = micro * ranks * accumulate
    visited: list[int] = []
    left_out = 0
    for node in range(nodes):
        share = Share(node=node, nodes=nodes)
        size = share.places(rows)
        length = usable(size, step_rows, drop_last) if size else 0
        left_out += size - length
        for rank in range(ranks):
            for worker in range(workers):
                steps = range(worker, -(-length // step_rows), workers)
                for step in steps:
                    walked = walk(Cursor(), step, step_rows, size, drop_last)
                    parts = walked.reshape(-1, micro)[rank::ranks].flatten()
                    first_epoch = parts[parts < length]
                    visited += (first_epoch * nodes + node).tolist()

    assert len(visited) == len(set(visited))
    assert set(visited) <= set(range(rows))
    assert rows == len(visited) + left_out
    assert left_out < nodes * step_rows if drop_last else left_out == 0


@given(
    share_rows=st.integers(1, 100),
    step_rows=st.integers(1, 20),
    drop_last=st.booleans(),
    stops=st.lists(st.integers(0, 30), max_size=5),
    step=st.integers(0, 200),
)
def test_any_chain_of_resumes_equals_none(
    share_rows: int, step_rows: int, drop_last: bool, stops: list[int], step: int
) -> None:
    """A run that was cut anywhere, any number of times, reads what it would have."""
    if drop_last and step_rows > share_rows:
        step_rows = share_rows
    cursor = Cursor()
    for more in stops:
        cursor = cursor_at(cursor, cursor.step + more, step_rows, share_rows, drop_last)
    step += cursor.step
    expected = walk(Cursor(), step, step_rows, share_rows, drop_last)
    length = usable(share_rows, step_rows, drop_last)

    found = walk(cursor, step, step_rows, share_rows, drop_last)

    assert (expected % length).tolist() == (found % length).tolist()
    assert (expected // length).tolist() == (found // length).tolist()
