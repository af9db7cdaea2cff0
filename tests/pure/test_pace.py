"""Steps for slow nodes, and when a round is over."""

import pytest

from speedtronic.pure.pace import boundary_due, inner_steps_at, steps_by_progress

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("speed", "expected"),
    [(2.0, 50), (3.0, 50), (1.0, 25), (0.99, 24), (0.2, 5), (0.001, 1)],
)
def test_steps_follow_speed(speed: float, expected: int) -> None:
    """Ten times slower is ten times fewer, never none and never more than H."""
    assert expected == inner_steps_at(speed, 2.0, 50)


@pytest.mark.parametrize("tenths", range(1, 11))
def test_simple_ratios_are_exact(tenths: int) -> None:
    """No rounding takes a step away."""
    assert tenths * 10 == inner_steps_at(tenths / 10, 1.0, 100)


@pytest.mark.parametrize(
    ("speed", "fastest", "steps"),
    [(0.0, 1.0, 5), (NAN, 1.0, 5), (1.0, INF, 5), (1.0, -1.0, 5), (1.0, 1.0, 0)],
)
def test_impossible_speeds_are_refused(
    speed: float, fastest: float, steps: int
) -> None:
    """A measured speed of zero is a mistake of the caller."""
    with pytest.raises(ValueError, match="expected"):
        inner_steps_at(speed, fastest, steps)


def test_a_round_in_steps() -> None:
    """Time does not matter."""
    assert not boundary_due(49, 1e9, every_steps=50)
    assert boundary_due(50, 0.0, every_steps=50)
    assert boundary_due(51, 0.0, every_steps=50)


def test_a_round_in_seconds() -> None:
    """At least one step, however slow the node."""
    assert not boundary_due(7, 9.9, every_s=10.0)
    assert boundary_due(7, 10.0, every_s=10.0)
    assert not boundary_due(0, 1e9, every_s=10.0)
    assert boundary_due(1, 1e9, every_s=10.0)


def test_the_first_bound_counts() -> None:
    """A fast node ends by steps, a slow one by time."""
    assert boundary_due(50, 1.0, every_steps=50, every_s=10.0)
    assert boundary_due(2, 10.0, every_steps=50, every_s=10.0)
    assert not boundary_due(2, 9.0, every_steps=50, every_s=10.0)


@pytest.mark.parametrize("bounds", [{}, {"every_steps": 0}, {"every_s": 0.0}])
def test_a_round_has_a_bound(bounds: dict[str, int]) -> None:
    """One that never ends, or never lasts, is a mistake."""
    with pytest.raises(ValueError, match="bounds"):
        boundary_due(1, 1.0, **bounds)  # type: ignore[arg-type]


def test_a_node_that_did_not_come_further_keeps_its_steps() -> None:
    """Nothing can be said of its speed; nor of one that was not there before."""
    assert None is steps_by_progress({"a": 0, "b": 7}, {"a": 9, "b": 7}, "b", 50)
    assert None is steps_by_progress({"a": 0}, {"a": 9, "b": 7}, "b", 50)


def test_the_fastest_node_takes_all_steps() -> None:
    """And a slow one its share, at least one."""
    before, after = {"a": 10, "b": 10, "c": 10}, {"a": 110, "b": 60, "c": 11}
    told = [steps_by_progress(before, after, stream, 50) for stream in "abc"]
    assert [50, 25, 1] == told
