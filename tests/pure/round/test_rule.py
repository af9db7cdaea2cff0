"""How a round's rule travels in a manifest."""

import pytest

from speedtronic.errors import Corrupt
from speedtronic.pure.aggregate import Origin
from speedtronic.pure.outer import OuterRule
from speedtronic.pure.round.rule import RoundRule, from_numbers, to_numbers


@pytest.mark.parametrize(
    "rule",
    [
        RoundRule(),
        RoundRule(
            aggregate="token_mean",
            discount=True,
            outer=OuterRule(learning_rate=0.1, momentum=0.0, nesterov=False),
        ),
    ],
    ids=["defaults", "everything else"],
)
def test_numbers_give_the_rule_back(rule: RoundRule) -> None:
    """Also whether it is discounted and how momentum is used."""
    assert rule == from_numbers(to_numbers(rule))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"aggregate": "median"}, "aggregate: expected one of mean, token_mean"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"learning_rate": "fast"}, "could not convert"),
        ({"more": 1}, "expected the keys"),
    ],
    ids=["rule", "rate", "word", "key"],
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
