"""Positions of steps, nodes and ranks."""

import pytest
import torch

from speedtronic.pure.data.position import (
    Cursor,
    Share,
    cursor_at,
    node_key,
    node_share,
    usable,
    walk,
)
from speedtronic.pure.random import key_from_seed
from speedtronic.testing.purity import check_pure


def test_shares_differ_by_one_row_at_most() -> None:
    """Ten rows for three nodes are four, three and three."""
    assert [4, 3, 3] == [Share(node=n, nodes=3).places(10) for n in range(3)]


def test_more_nodes_than_rows() -> None:
    """A node may be left without rows."""
    assert [1, 1, 0, 0] == [Share(node=n, nodes=4).places(2) for n in range(4)]


@pytest.mark.parametrize(("node", "nodes"), [(2, 2), (-1, 2), (0, 0)])
def test_a_node_that_is_not_among_the_nodes(node: int, nodes: int) -> None:
    """Numbers of nodes are checked."""
    with pytest.raises(ValueError, match=f"node {node} is not in"):
        Share(node=node, nodes=nodes)


def test_drop_last_leaves_the_end_of_an_epoch_out() -> None:
    """With 7 rows and steps of 3 the seventh row of an epoch is not used."""
    rows = torch.cat([walk(Cursor(), step, 3, 7, True) for step in range(4)])

    assert [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5] == (rows % 6).tolist()
    assert 6 == usable(7, 3, True)


def test_without_it_a_step_goes_on_with_the_next_epoch() -> None:
    """With 7 rows and steps of 3 the third step has two rows of the next epoch."""
    rows = walk(Cursor(), 2, 3, 7, False)

    assert [(0, 6), (1, 0), (1, 1)] == [divmod(r, 7) for r in rows.tolist()]


@pytest.mark.parametrize("drop_last", [True, False])
def test_going_on_from_a_cursor(drop_last: bool) -> None:
    """A step is the same from any cursor before it."""
    for middle in range(10):
        cursor = cursor_at(Cursor(), middle, 3, 7, drop_last)
        for step in range(middle, 12):
            expected = walk(Cursor(), step, 3, 7, drop_last)

            assert expected.tolist() == walk(cursor, step, 3, 7, drop_last).tolist()


def test_another_batch_size_goes_on_where_the_last_one_stopped() -> None:
    """After two steps of 3 rows, a step of 2 rows reads the seventh and eighth."""
    cursor = cursor_at(Cursor(), 2, 3, 10, False)

    assert [6, 7] == walk(cursor, 2, 2, 10, False).tolist()


def test_steps_before_the_cursor_are_refused() -> None:
    """A cursor cannot look back."""
    with pytest.raises(ValueError, match="step 1 lies before the cursor's 2"):
        walk(Cursor(step=2), 1, 3, 7, False)


def test_named_nodes_agree_on_their_numbers() -> None:
    """Each node finds its number from the names, in whatever order it has them."""
    names = ("north", "south", "west")
    shares = [node_share(n, tuple(m for m in names[::-1] if m != n)) for n in names]

    assert [Share(node=i, nodes=3) for i in range(3)] == shares


def test_unknown_nodes_have_keys_of_their_own() -> None:
    """The key is a function of the name."""
    key = key_from_seed(0)

    assert node_key(key, "a").tolist() == node_key(key, "a").tolist()
    assert node_key(key, "a").tolist() != node_key(key, "b").tolist()


def test_positions_are_pure() -> None:
    """No hidden randomness, no input written."""
    check_pure(walk, Cursor(), 3, 2, 5, True)
    check_pure(node_key, key_from_seed(0), "a")
