"""Rules by name: the numbers of each, and how many deltas it needs."""

import pytest

from speedtronic.pure.rules import NAMES, least, number_problems, rule_named


@pytest.mark.parametrize(
    ("name", "by_faulty"),
    [
        ("mean", [1, 1, 1]),
        ("token_mean", [1, 1, 1]),
        ("norm_clip", [3, 3, 3]),
        ("median", [3, 3, 3]),
        ("trimmed_mean", [3, 3, 5]),
        ("geometric_median", [3, 3, 3]),
        ("centered_clip", [3, 3, 3]),
        ("multi_krum", [3, 5, 7]),
    ],
)
def test_what_each_rule_needs(name: str, by_faulty: list[int]) -> None:
    """For none, one and two faulty deltas."""
    rule = rule_named(name)
    assert rule is not None
    assert by_faulty == [least(rule, faulty) for faulty in range(3)]


def test_these_are_all() -> None:
    """In the order in which a config tells them."""
    assert 8 == len(NAMES)
    assert ("mean", "multi_krum") == (NAMES[0], NAMES[-1])


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_numbers_that_cannot_be_used(bad: float) -> None:
    """All of them are told at once."""
    told = number_problems(cap=bad, clip=bad, faulty=-1)
    assert ["cap", "clip", "faulty"] == [line.partition(":")[0] for line in told]
