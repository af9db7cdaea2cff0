"""How the deltas of a round become one step, as numbers that a manifest carries.

A reader of a run needs nothing else to repeat its rounds: the manifest names the rule
and its numbers, the headers say what each delta weighs.

Absent on purpose: rules that a manifest cannot name. Whoever asks "what if" passes
functions of their own to a replay.
"""

from collections.abc import Mapping, Sequence

import attrs

from speedtronic.errors import Corrupt
from speedtronic.pure import robust, rules
from speedtronic.pure.aggregate import Aggregator, mean, token_mean
from speedtronic.pure.origin import Origin, by_steps
from speedtronic.pure.outer import OuterRule
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import Scalar


@attrs.frozen(kw_only=True)
class RoundRule:
    """What all leaders of a run do with the deltas that count."""

    aggregate: rules.Rule = "mean"
    cap: float = 2.0  # of `token_mean`, in median tokens
    clip: float = 1.0  # of `norm_clip` and `centered_clip`, in median lengths
    faulty: int = 1  # of `trimmed_mean` and `multi_krum`, deltas of a round
    discount: bool = False  # weigh by staleness, `origin.staleness_weight`
    outer: OuterRule = OuterRule()

    def __attrs_post_init__(self) -> None:
        problems = rules.number_problems(
            cap=self.cap, clip=self.clip, faulty=self.faulty
        )
        if problems:
            raise ValueError("; ".join(problems))

    @property
    def aggregator(self) -> Aggregator:
        """The rule as functions of tensors."""
        discount = self.discount
        match self.aggregate:
            case "mean":
                return mean(discount=discount)
            case "token_mean":
                return token_mean(cap=self.cap, discount=discount)
            case "norm_clip":
                return robust.norm_clip(self.clip, discount=discount)
            case "median":
                return robust.median(discount=discount)
            case "trimmed_mean":
                return robust.trimmed_mean(self.faulty, discount=discount)
            case "geometric_median":
                return robust.geometric_median(discount=discount)
            case "centered_clip":
                return robust.centered_clip(self.clip, discount=discount)
            case "multi_krum":
                return robust.multi_krum(self.faulty, discount=discount)

    @property
    def least(self) -> int:
        """The fewest deltas of a round."""
        return rules.least(self.aggregate, self.faulty)


def clipped(
    rule: RoundRule,
    origins: Sequence[Origin],
    lengths: Sequence[float],
    *,
    times: float = 1.0,
) -> tuple[Origin, ...]:
    """Whose deltas `norm_clip` shortens in a round; nobody's under another rule.

    Args:
        rule: of the run.
        origins: of the deltas that count.
        lengths: the 2-norm of each, as they were handed in.
        times: only those so many times longer than what they are cut to.

    >>> three = [Origin(node, "s", 1) for node in "abc"]
    >>> rule = RoundRule(aggregate="norm_clip", clip=2.0)
    >>> [origin.node for origin in clipped(rule, three, [1.0, 1.1, 30.0])]
    ['c']
    """
    if rule.aggregate != "norm_clip" or not origins:
        return ()
    levelled = [f * x for f, x in zip(by_steps(origins), lengths, strict=True)]
    found = robust.clipped(levelled, times * rule.clip)
    return tuple(o for o, cut in zip(origins, found, strict=True) if cut)


def to_numbers(rule: RoundRule) -> tuple[tuple[str, Scalar], ...]:
    """As a manifest carries it, sorted by name; numbers of other rules are left out.

    >>> to_numbers(RoundRule())
    (('aggregate', 'mean'), ('discount', 0), ('learning_rate', 0.7), ('momentum', 0.9),
     ('nesterov', 1))
    >>> dict(to_numbers(RoundRule(aggregate="multi_krum", faulty=2)))["faulty"]
    2
    """
    outer = rule.outer
    own: dict[rules.Number, Scalar] = {
        "cap": float(rule.cap),
        "clip": float(rule.clip),
        "faulty": int(rule.faulty),
    }
    numbers: dict[str, Scalar] = {
        "aggregate": rule.aggregate,
        "discount": int(rule.discount),
        "learning_rate": float(outer.learning_rate),
        "momentum": float(outer.momentum),
        "nesterov": int(outer.nesterov),
    }
    numbers |= {str(name): own[name] for name in rules.NUMBERS[rule.aggregate]}
    return tuple(sorted(numbers.items()))


def from_numbers(numbers: tuple[tuple[str, Scalar], ...]) -> RoundRule:
    """The inverse of `to_numbers`.

    Raises:
        Corrupt: not exactly such numbers; they came from another version or hand.

    >>> from_numbers(to_numbers(RoundRule())) == RoundRule()
    True
    """
    found: Mapping[str, Scalar] = dict(numbers)
    name = rules.rule_named(str(found.get("aggregate", "mean")))
    if name is None:
        known = ", ".join(rules.NAMES)
        raise Corrupt(
            f"manifest.outer.aggregate: expected one of {known}, found"
            f" {found['aggregate']}"
        )
    expected = [key for key, _ in to_numbers(RoundRule(aggregate=name))]
    if sorted(found) != expected:
        raise Corrupt(
            f"manifest.outer: expected the keys {', '.join(expected)}, found"
            f" {', '.join(sorted(found)) or 'none'}"
        )
    default = RoundRule()
    faulty = found.get("faulty", default.faulty)
    if not isinstance(faulty, int):
        raise Corrupt(f"manifest.outer.faulty: expected a count, found {faulty!r}")
    try:
        outer = OuterRule(
            learning_rate=float(found["learning_rate"]),
            momentum=float(found["momentum"]),
            nesterov=bool(found["nesterov"]),
        )
        return RoundRule(
            aggregate=name,
            cap=float(found.get("cap", default.cap)),
            clip=float(found.get("clip", default.clip)),
            faulty=faulty,
            discount=bool(found["discount"]),
            outer=outer,
        )
    except ValueError as error:
        raise Corrupt(f"manifest.outer: {error}") from None


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
        steps=header.inner_steps,
    )
