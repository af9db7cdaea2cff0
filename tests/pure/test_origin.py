"""What deltas may weigh, from who made them and how."""

import pytest

from speedtronic.pure.origin import Origin, by_steps, discounted, middle, one_vote


def of(node: int, steps: int) -> Origin:
    """A delta of so many inner steps."""
    return Origin(f"n{node}", "s", 1, steps=steps)


def test_few_steps_are_not_scaled_up() -> None:
    """Who tells of one step gains nothing; without any there is nothing to divide."""
    steps = 50, 1, 50, 0, 100
    expected = [1.0, 1.0, 1.0, 1.0, 0.5]
    assert expected == by_steps([of(n, k) for n, k in enumerate(steps)])
    assert [1.0] == by_steps([of(0, 0)])
    assert [] == by_steps([])


def test_the_newest_base_has_the_vote_of_its_node() -> None:
    """In whatever order they come."""
    old, new = Origin("a", "s1", 1, staleness=2), Origin("a", "s2", 1, staleness=1)
    assert [0.0, 1.0] == one_vote([old, new])
    assert [1.0, 0.0] == one_vote([new, old])
    late, later = Origin("a", "s3", 1, staleness=3), Origin("a", "s4", 1, staleness=5)
    assert [0.5, 0.0] == discounted(one_vote)([late, later])


@pytest.mark.parametrize(
    ("values", "expected"),
    [([3.0], 3.0), ([1e308, 1e308], 1e308), ([2.0, 1.0, 9.0], 2.0)],
    ids=["one", "huge", "three"],
)
def test_the_middle_is_no_sum(values: list[float], expected: float) -> None:
    """Two numbers may be too large to be added."""
    assert expected == middle(values)
