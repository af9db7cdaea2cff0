"""Laws of mixtures: right proportions, each source in its own order."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from speedtronic.pure.data.mixture import deal, shares

WEIGHTS = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=6)


@given(weights=WEIGHTS, first=st.integers(0, 2**40), size=st.integers(1, 300))
def test_a_source_counts_its_own_rows(
    weights: list[float], first: int, size: int
) -> None:
    """Wherever one looks, the rows of a source are numbered without a gap."""
    source, draw = deal(first + torch.arange(size), shares(weights))
    for number in range(len(weights)):
        mine = draw[source == number].tolist()
        if mine:
            assert list(range(mine[0], mine[0] + len(mine))) == mine


@given(weights=WEIGHTS, count=st.integers(1, 2000))
def test_proportions_hold_from_the_start(weights: list[float], count: int) -> None:
    """After any number of rows each source has its share to within one per source."""
    parts = shares(weights)
    source, _ = deal(torch.arange(count), parts)
    for number, part in enumerate(parts):
        due = count * part / sum(parts)

        assert abs(int((source == number).sum()) - due) <= len(weights)


@given(weights=WEIGHTS, position=st.integers(0, 2**40), seed=st.integers(0, 99))
def test_a_row_is_a_function_of_its_position(
    weights: list[float], position: int, seed: int
) -> None:
    """Asked alone or among others, the answer is the same."""
    parts = shares(weights)
    around = deal(position + torch.arange(seed + 1), parts)
    alone = deal(torch.tensor(position + seed), parts)

    assert [int(x) for x in alone] == [int(x[seed]) for x in around]
