"""What the roster and the limits of a run say to a delta."""

from typing import Any

import attrs
from tests.pure.round.values import (
    LIMITS,
    OTHER,
    STREAM,
    candidate,
    genesis,
    header,
    publish,
)

from speedtronic.pure.round.admit import Bounds, Decisions, admit
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.roster import Member, Roster, added, founded

KEY, LEADER = "1" * 64, "2" * 64
BOUNDS = Bounds(payload_bytes=1000)


def signed(limits: Limits = LIMITS, **member: Any) -> Manifest:
    """A run whose roster has ``node-1``."""
    start = genesis(limits=limits)
    roster: Roster = founded(start.run, LEADER, {"leader": LEADER})
    roster = added(roster, Member(node="node-1", key=KEY, role="worker", **member))
    return attrs.evolve(start, roster=roster)


def decided(manifest: Manifest, node: str, **facts: Any) -> Decisions:
    """What becomes of one delta of a node."""
    return admit(manifest, (candidate(header(manifest, node=node), **facts),), BOUNDS)


def test_a_delta_counts_if_its_node_signed_it() -> None:
    """By the key that the roster has now."""
    assert decided(signed(), "node-1", signed_by=KEY).accepted


def test_what_nobody_signed_is_garbage_and_moves_no_register() -> None:
    """A refusal would let a forger move the stream of another node."""
    for node, by, told in (
        ("node-1", "", "it is not signed by the key of node node-1"),
        ("node-1", LEADER, "it is not signed by the key of node node-1"),
        ("other", KEY, "node other is not in the roster"),
    ):
        found = decided(signed(), node, signed_by=by, finite=False)
        assert ((), ()) == (found.accepted, found.refused)
        assert [told] == [b.reason for b in found.garbage]


def test_the_limit_of_a_node_is_its_own() -> None:
    """The roster says it."""
    manifest = signed(max_norm=2.0)
    assert decided(manifest, "node-1", signed_by=KEY, norm=2.0).accepted
    ((_, refusal),) = decided(manifest, "node-1", signed_by=KEY, norm=2.1).refused
    assert ("drop", "too large: norm 2.1, at most 2 count") == (
        refusal.verdict,
        refusal.reason,
    )


def test_the_limit_of_a_run_is_that_of_all() -> None:
    """Whoever leads."""
    manifest = genesis(limits=attrs.evolve(LIMITS, max_norm=3.0))
    assert decided(manifest, "a", norm=3.0).accepted
    assert decided(manifest, "a", norm=3.5).refused


def test_a_delta_is_measured_by_the_others() -> None:
    """By the median of at least three that could count; not finite ones cannot."""
    limits = attrs.evolve(LIMITS, norm_ratio=4.0, per_round=4)
    manifest = genesis(limits=limits)
    streams = [STREAM, OTHER, "12" * 8, "34" * 8, "56" * 8]

    def found(*norms: float) -> Decisions:
        heads = [
            header(manifest, node=f"n{i}", stream=s)
            for i, (s, _) in enumerate(zip(streams, norms, strict=False))
        ]
        pairs = zip(heads, norms, strict=True)
        return admit(
            manifest,
            tuple(candidate(h, norm=n, finite=n < 1e9) for h, n in pairs),
            BOUNDS,
        )

    assert ["n3"] == [c.name.node for c, _ in found(1.0, 1.1, 1.2, 9.0).refused]
    assert () == found(1.0, 9.0).refused
    assert ["n2"] == [c.name.node for c, _ in found(1.0, 9.0, 1e9).refused]


def test_a_node_in_disgrace_waits() -> None:
    """Two refusals in a row; then its good deltas wait until the term is over."""
    manifest = genesis(limits=attrs.evolve(LIMITS, strikes=2, aside=2))
    for _ in range(2):
        manifest = publish(manifest, decided(manifest, "node-1", finite=False))
    (standing,) = manifest.standings
    assert ("node-1", 3) == (standing.node, standing.until)
    for round in range(4):
        work = candidate(header(manifest, node="node-1"))
        other = candidate(header(manifest, node="other", stream=OTHER))
        found = admit(manifest, (work, other), BOUNDS)
        heard = "node-1" in {c.name.node for c in found.accepted}
        assert (round >= 3) == heard
        assert heard != (work in found.waiting)
        manifest = publish(manifest, found)
    assert () == manifest.standings
