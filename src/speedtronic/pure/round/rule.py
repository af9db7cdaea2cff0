"""How the deltas of a round become one step, as numbers that a manifest carries.

A reader of a run needs nothing else to repeat its rounds: the manifest names the rule
and its numbers, the headers say what each delta weighs.

Absent on purpose: rules that a manifest cannot name. Whoever asks "what if" passes
functions of their own to a replay.
"""

from collections.abc import Mapping
from typing import Literal

import attrs

from speedtronic.errors import Corrupt
from speedtronic.pure.aggregate import Aggregator, Origin, mean, token_mean
from speedtronic.pure.outer import OuterRule
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import Scalar

RULES = {"mean": mean, "token_mean": token_mean}


@attrs.frozen(kw_only=True)
class RoundRule:
    """What all leaders of a run do with the deltas that count."""

    aggregate: Literal["mean", "token_mean"] = "mean"
    discount: bool = False  # weigh by staleness, `aggregate.staleness_weight`
    outer: OuterRule = OuterRule()

    @property
    def aggregator(self) -> Aggregator:
        """The rule as functions of tensors."""
        return RULES[self.aggregate](discount=self.discount)


def to_numbers(rule: RoundRule) -> tuple[tuple[str, Scalar], ...]:
    """As a manifest carries it, sorted by name.

    >>> to_numbers(RoundRule())
    (('aggregate', 'mean'), ('discount', 0), ('learning_rate', 0.7), ('momentum', 0.9),
     ('nesterov', 1))
    """
    outer = rule.outer
    return (
        ("aggregate", rule.aggregate),
        ("discount", int(rule.discount)),
        ("learning_rate", float(outer.learning_rate)),
        ("momentum", float(outer.momentum)),
        ("nesterov", int(outer.nesterov)),
    )


def from_numbers(numbers: tuple[tuple[str, Scalar], ...]) -> RoundRule:
    """The inverse of `to_numbers`.

    Raises:
        Corrupt: not exactly such numbers; they came from another version or hand.

    >>> from_numbers(to_numbers(RoundRule())) == RoundRule()
    True
    """
    found: Mapping[str, Scalar] = dict(numbers)
    expected = [name for name, _ in to_numbers(RoundRule())]
    if sorted(found) != expected:
        raise Corrupt(
            f"manifest.outer: expected the keys {', '.join(expected)}, found"
            f" {', '.join(sorted(found)) or 'none'}"
        )
    name = found["aggregate"]
    if name not in RULES:
        known = ", ".join(RULES)
        raise Corrupt(
            f"manifest.outer.aggregate: expected one of {known}, found {name}"
        )
    try:
        outer = OuterRule(
            learning_rate=float(found["learning_rate"]),
            momentum=float(found["momentum"]),
            nesterov=bool(found["nesterov"]),
        )
    except ValueError as error:
        raise Corrupt(f"manifest.outer: {error}") from None
    return RoundRule(
        aggregate="mean" if name == "mean" else "token_mean",
        discount=bool(found["discount"]),
        outer=outer,
    )


def origin_of(header: Header, round: int) -> Origin:
    """What an aggregation knows of a delta.

    Args:
        header: of the delta.
        round: the round that it counts in; its base is at best the one before.

    >>> header = Header(
    ...     run="0" * 16, lineage="0" * 64, node="a", stream="1" * 16, life="2" * 16,
    ...     seq=3, after=None, base_round=4, base_id="5" * 64, cursor=0, inner_steps=9,
    ...     tokens=100, codec="none", payload="6" * 64, payload_bytes=8,
    ... )
    >>> origin_of(header, 7).staleness
    2
    """
    return Origin(
        node=header.node,
        stream=header.stream,
        sequence=header.seq,
        tokens=header.tokens,
        staleness=round - 1 - header.base_round,
    )
