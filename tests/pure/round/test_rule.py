"""How a round's rule travels in a manifest."""

import pytest

from speedtronic.errors import Corrupt
from speedtronic.pure.origin import Origin
from speedtronic.pure.outer import OuterRule
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.rule import (
    RoundRule,
    clipped,
    from_numbers,
    origin_of,
    to_numbers,
)
from speedtronic.pure.rules import NAMES


@pytest.mark.parametrize(
    "rule",
    [
        RoundRule(),
        RoundRule(
            aggregate="token_mean",
            discount=True,
            outer=OuterRule(learning_rate=0.1, momentum=0.0, nesterov=False),
        ),
        RoundRule(aggregate="token_mean", cap=3.5),
        RoundRule(aggregate="norm_clip", clip=1.5),
        RoundRule(aggregate="median"),
        RoundRule(aggregate="trimmed_mean", faulty=2),
        RoundRule(aggregate="geometric_median", discount=True),
        RoundRule(aggregate="centered_clip", clip=0.5),
        RoundRule(aggregate="multi_krum", faulty=3),
    ],
    ids=lambda rule: f"{rule.aggregate}, {rule.cap}",
)
def test_numbers_give_the_rule_back(rule: RoundRule) -> None:
    """Also whether it is discounted and how momentum is used."""
    assert rule == from_numbers(to_numbers(rule))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"aggregate": "majority"}, "aggregate: expected one of mean, token_mean,"),
        ({"aggregate": 7}, "aggregate: expected one of mean, .* found 7"),
        ({"aggregate": "multi_krum"}, "expected the keys aggregate, discount, faulty"),
        ({"aggregate": "norm_clip", "clip": -1.0}, "clip: expected a finite number"),
        ({"aggregate": "norm_clip", "clip": "nan"}, "clip: expected a finite number"),
        ({"aggregate": "token_mean", "cap": 0.5}, "cap: expected a finite number >= 1"),
        ({"aggregate": "trimmed_mean", "faulty": -1}, "faulty: expected at least 0"),
        ({"aggregate": "trimmed_mean", "faulty": "x"}, "faulty: expected a count"),
        ({"aggregate": "trimmed_mean", "faulty": 1.5}, "faulty: expected a count"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"learning_rate": "fast"}, "could not convert"),
        ({"more": 1}, "expected the keys"),
    ],
    ids=lambda change: "" if isinstance(change, str) else str(change),
)
def test_other_numbers_are_refused(change: dict[str, float | str], told: str) -> None:
    """A manifest comes from others."""
    numbers = tuple(sorted({**dict(to_numbers(RoundRule())), **change}.items()))
    with pytest.raises(Corrupt, match=told):
        from_numbers(numbers)


def test_the_rule_weighs_as_it_says() -> None:
    """The token mean, discounted by the staleness."""
    rule = RoundRule(aggregate="token_mean", discount=True)
    origin = Origin("a", "s", 1, tokens=100, staleness=3)
    assert [50.0] == list(rule.aggregator.weigh([origin]))


def test_every_name_is_a_rule() -> None:
    """And each knows how many deltas it needs, as the config and the tensors do."""
    for name in NAMES:
        rule = RoundRule(aggregate=name, faulty=2)
        assert rule.least == rule.aggregator.least


def test_a_manifest_holds_the_numbers_of_its_rule_only() -> None:
    """So a number that nobody uses is no difference between two manifests."""
    numbers = dict(to_numbers(RoundRule(aggregate="median", clip=9.0, faulty=4)))
    assert not numbers.keys() & {"cap", "clip", "faulty"}


def test_who_is_clipped_is_judged_as_the_rule_judges() -> None:
    """Of levelled lengths; the node with the work of three rounds is not."""
    steps = {"a": 5, "b": 5, "c": 15, "d": 5}
    origins = [Origin(node, "s", 1, steps=n) for node, n in steps.items()]
    lengths = [1.0, 1.0, 3.0, 1.5]
    rule = RoundRule(aggregate="norm_clip", clip=1.25)
    assert ["d"] == [origin.node for origin in clipped(rule, origins, lengths)]
    assert () == clipped(RoundRule(), origins, lengths)
    assert () == clipped(rule, [], [])


def test_steps_and_staleness_come_from_the_header() -> None:
    """The round that a delta counts in is one after its base, at best."""
    header = Header(
        run="0" * 16,
        lineage="0" * 64,
        node="a",
        stream="1" * 16,
        life="2" * 16,
        seq=3,
        after=None,
        base_round=4,
        base_id="5" * 64,
        cursor=0,
        inner_steps=9,
        tokens=100,
        codec="none",
        payload="6" * 64,
        payload_bytes=8,
    )
    found = origin_of(header, 7)
    assert (9, 2, 100) == (found.steps, found.staleness, found.tokens)
