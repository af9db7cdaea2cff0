"""Admission: which deltas count, and why not the others, in words."""

from typing import Any

import attrs
import pytest
from tests.pure.round.values import (
    OTHER,
    STREAM,
    accept,
    candidate,
    genesis,
    header,
    publish,
    rounds,
)

from speedtronic.pure.round.admit import Bounds, Decisions, admit
from speedtronic.pure.round.manifest import Manifest

BOUNDS = Bounds(payload_bytes=1000, norm=100.0)


def test_a_delta_on_the_newest_round_counts() -> None:
    """The simplest case."""
    manifest = genesis()
    found = admit(manifest, (candidate(header(manifest)),), BOUNDS)
    assert [STREAM] == [c.name.stream for c in found.accepted]
    assert () == found.refused + found.garbage + found.waiting


@pytest.mark.parametrize("behind", [0, 1, 2])
def test_a_delta_within_the_staleness_counts(behind: int) -> None:
    """Its base may be as many rounds back as the run allows."""
    start = genesis()
    found = admit(rounds(start, behind), (candidate(header(start)),), BOUNDS)
    assert 1 == len(found.accepted)


def later(manifest: Manifest) -> Manifest:
    return rounds(manifest, 3)


def decided(manifest: Manifest) -> Manifest:
    return accept(manifest, header(manifest))


def itself(manifest: Manifest) -> Manifest:
    return manifest


@pytest.mark.parametrize(
    ("changes", "then", "told"),
    [
        ({"run": "00" * 8}, itself, "it belongs to run 0000000000000000"),
        ({"lineage": "0" * 64}, itself, "another config, lineage 00000"),
        ({"base_round": 1}, itself, "base round 1 is ahead of round 0"),
        ({"base_id": "0" * 64}, itself, "is not round 0 of this run"),
        ({}, later, "stale: 3 rounds behind, at most 2 count"),
        ({}, decided, "repeated: it was decided before"),
        ({"seq": 2}, decided, "it follows None, its stream is at"),
        ({"after": "0" * 64}, itself, "it follows 000"),
    ],
)
def test_what_can_never_count_is_garbage(
    changes: dict[str, Any], then: Any, told: str
) -> None:
    """Wrong run, lineage or base, stale, repeated, overtaken: all named."""
    manifest = genesis()
    head = header(manifest, **changes)
    found = admit(then(manifest), (candidate(head),), BOUNDS)
    assert [head.name] == [b.name for b in found.garbage]
    assert told in found.garbage[0].reason
    assert () == found.accepted + found.refused


def test_a_delta_under_another_name_is_garbage() -> None:
    """The name would let it replace somebody else's."""
    manifest = genesis()
    good = candidate(header(manifest))
    name = attrs.evolve(good.name, node="victim")
    found = admit(manifest, (attrs.evolve(good, name=name),), BOUNDS)
    assert "the name says node victim" in found.garbage[0].reason


@pytest.mark.parametrize(
    ("facts", "verdict", "told"),
    [
        ({"finite": False}, "drop", "not finite after 50 steps"),
        ({"mismatch": "delta['w'] is float16[4]"}, "drop", "delta['w'] is float16[4]"),
        ({"norm": 101.0}, "drop", "too large: norm 101, at most 100"),
        ({"norm": float("nan")}, "drop", "too large: norm nan"),
        ({"payload": "0" * 64}, "retry", "bad hash"),
        ({"payload_bytes": 399}, "retry", "bad hash"),
        ({"payload": "0" * 64, "finite": False}, "retry", "bad hash"),
        ({"objection": "over quota"}, "retry", "over quota"),
        ({"objection": "over quota", "finite": False}, "drop", "not finite"),
    ],
)
def test_refusals_have_a_verdict_and_a_reason(
    facts: dict[str, Any], verdict: str, told: str
) -> None:
    """``drop`` must never come again; after ``retry`` the work may."""
    manifest = genesis()
    found = admit(manifest, (candidate(header(manifest), **facts),), BOUNDS)
    [(_, refusal)] = found.refused
    assert verdict == refusal.verdict
    assert told in refusal.reason
    assert () == found.accepted


def test_a_large_payload_is_refused() -> None:
    """By its announced size, whatever was read."""
    manifest = genesis()
    found = admit(manifest, (candidate(header(manifest, payload_bytes=1001)),), BOUNDS)
    assert "too large: 1001 bytes" in found.refused[0][1].reason


def test_one_delta_per_stream_counts() -> None:
    """The newest cut; the other one is garbage as soon as it is decided."""
    manifest = genesis()
    first, second = header(manifest), header(manifest, seq=2)
    found = admit(manifest, (candidate(second), candidate(first)), BOUNDS)
    assert [2] == [c.name.seq for c in found.accepted]
    after = publish(manifest, found)
    assert [first.name] == [
        b.name for b in admit(after, (candidate(first),), BOUNDS).garbage
    ]


def test_the_order_of_arrival_does_not_matter() -> None:
    """Aggregation is by node, stream and number."""
    manifest = genesis()
    heads = [header(manifest, node=n, stream=f"{i:016x}") for i, n in enumerate("cab")]
    found = [
        admit(manifest, tuple(candidate(h) for h in order), BOUNDS).accepted
        for order in (heads, heads[::-1])
    ]
    assert found[0] == found[1]
    assert ["a", "b", "c"] == [c.name.node for c in found[0]]


def test_a_full_round_serves_the_longest_waiting_first() -> None:
    """Serving by name would starve the last ones."""
    manifest = genesis()
    streams = [f"{i:016x}" for i in range(5)]
    waited = dict.fromkeys(streams, 0)
    shares = dict.fromkeys(streams, 0)
    for _ in range(40):
        heads = [header(manifest, stream=s, node=f"n{s[-1]}") for s in streams]
        found = admit(manifest, tuple(candidate(h) for h in heads), BOUNDS)
        assert (3, 2) == (len(found.accepted), len(found.waiting))
        served = {c.name.stream for c in found.accepted}
        waited = {s: 0 if s in served else waited[s] + 1 for s in streams}
        shares = {s: shares[s] + (s in served) for s in streams}
        assert max(waited.values()) <= 1
        manifest = publish(manifest, found)
    assert max(shares.values()) - min(shares.values()) <= 8


def test_refusals_between_two_rounds_are_bounded() -> None:
    """A writer of endless new streams cannot grow the ledger."""
    manifest = genesis()
    bad = [
        candidate(header(manifest, stream=f"{i:016x}"), finite=False) for i in range(9)
    ]
    found = admit(manifest, tuple(bad), BOUNDS)
    assert 3 == len(found.refused)
    after = publish(manifest, found)
    left = tuple(c for c in bad if after.register(c.name.stream) is None)
    assert () == admit(after, left, BOUNDS).refused


def test_nothing_accepted_changes_neither_global_nor_round() -> None:
    """A manifest of refusals keeps round, weights and momentum."""
    manifest = genesis()
    bad = candidate(header(manifest), finite=False)
    after = publish(manifest, admit(manifest, (bad,), BOUNDS))
    for field in ("round", "round_id", "recent", "weights", "momentum", "accepted"):
        assert getattr(manifest, field) == getattr(after, field)
    assert after.register(STREAM) is not None


def test_an_objection_may_hold_anything() -> None:
    """It is printable and bounded before it reaches a manifest."""
    manifest = genesis()
    odd = candidate(header(manifest), objection="a\nb" + "x" * 400)
    [(_, refusal)] = admit(manifest, (odd,), BOUNDS).refused
    assert "a?b" + "x" * 297 == refusal.reason


def test_no_candidates_no_decisions() -> None:
    """An empty lane decides nothing."""
    assert Decisions() == admit(genesis(), (), BOUNDS)


def test_streams_of_one_node_take_turns() -> None:
    """A copy of a run directory counts for itself, and no node counts twice a round."""
    manifest = genesis()
    heads = [header(manifest), header(manifest, stream=OTHER)]
    found = admit(manifest, tuple(candidate(h) for h in heads), BOUNDS)
    assert (1, 1) == (len(found.accepted), len(found.waiting))
    after = publish(manifest, found)
    left = admit(after, found.waiting, BOUNDS)
    assert (found.waiting, ()) == (left.accepted, left.waiting)
