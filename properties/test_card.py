"""What a model card tells the leader of the next round."""

from hypothesis import given
from hypothesis import strategies as st
from tests.pure.round.values import genesis

from speedtronic.pure.card import POINTS, About, Facts, Point, card, counted, recalled

ABOUT = About(title="books", version="3.0", parameters=9, loading="Load it.")
FIRST = genesis()

losses = st.none() | st.floats(allow_nan=False, allow_infinity=False)
points = st.builds(Point, st.integers(0, 10**9), losses, losses)
facts = st.builds(
    Facts,
    since=st.integers(0, 10**9),
    steps=st.integers(0, 10**12),
    tokens=st.integers(0, 10**15),
    curve=st.lists(points, max_size=POINTS).map(tuple),
)


@given(facts)
def test_the_next_leader_reads_what_this_one_wrote(told: Facts) -> None:
    """Every number, bit for bit."""
    assert told == recalled(card(ABOUT, FIRST, told).encode(), 7)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_page_can_be_read(page: bytes) -> None:
    """Whoever wrote it, and with whatever on its last line."""
    line = b"<!-- speedtronic " + page + b" -->"
    for text in (page, line):
        assert isinstance(recalled(text, 7), Facts)


@given(st.lists(st.floats() | st.none(), max_size=80))
def test_a_curve_is_short_finite_and_in_order(found: list[float | None]) -> None:
    """However long a run is."""
    told = Facts()
    for round, loss in enumerate(found, 1):
        told = counted(told, round, [], Point(round, loss, None))
    rounds = [point.round for point in told.curve]

    assert len(rounds) <= POINTS
    assert sorted(set(rounds)) == rounds
    assert told == recalled(card(ABOUT, FIRST, told).encode(), 7)
