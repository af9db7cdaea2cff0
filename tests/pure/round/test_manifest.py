"""The manifest: what is written is read, and nothing else is."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import attrs
import pytest
from tests.pure.round.test_admit import BOUNDS
from tests.pure.round.values import (
    OTHER,
    accept,
    candidate,
    genesis,
    header,
    publish,
    renew,
    rounds,
)

from speedtronic.errors import Corrupt
from speedtronic.pure.round import plain
from speedtronic.pure.round.admit import Decisions, refuse
from speedtronic.pure.round.limits import MAX_DECISIONS, Limits
from speedtronic.pure.round.manifest import Manifest, Register, encode, parse
from speedtronic.pure.round.roster import MAX_MEMBERS, founded
from speedtronic.pure.round.standing import Standing


def full() -> Manifest:
    """A manifest in which no field is empty."""
    manifest = rounds(genesis(), 2)
    good, bad = header(manifest), header(manifest, stream=OTHER, node="other")
    poor = candidate(bad, finite=False)
    refusal = refuse(poor, BOUNDS)
    assert refusal is not None
    return publish(
        manifest, Decisions(accepted=(candidate(good),), refused=((poor, refusal),))
    )


@pytest.mark.parametrize("manifest", [genesis(), renew(genesis()), full()])
def test_a_manifest_survives_the_lane(manifest: Manifest) -> None:
    """What is written is read, with the same id."""
    again = parse(encode(manifest))
    assert manifest == again
    assert manifest.id == again.id


def test_a_flipped_bit_is_noticed() -> None:
    """Nothing names the newest manifest by its hash, so it vouches for itself."""
    data = encode(full())
    for place in range(0, len(data), 7):
        flipped = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(Corrupt):
            parse(flipped)


def test_a_cut_file_is_noticed() -> None:
    """At every length."""
    data = encode(full())
    for length in range(0, len(data), 101):
        with pytest.raises(Corrupt):
            parse(data[:length])


def test_another_version_is_named() -> None:
    """So that a user knows what to update."""
    with pytest.raises(Corrupt, match="another version of speedtronic"):
        parse(plain.encode({**json.loads(encode(full())), "schema": 1}))


def test_a_large_file_is_not_parsed() -> None:
    """Whatever is in it."""
    with pytest.raises(Corrupt, match="at most 16777216 bytes"):
        parse(b" " * (16 * 2**20 + 1))


def test_the_largest_manifest_can_be_read() -> None:
    """A run in which everything is full goes on."""
    limits = Limits(staleness=200, window=256, per_round=16)
    start = genesis(limits=limits)
    register = Register(
        stream="",
        node="",
        seq=10**11,
        decided="d" * 64,
        after="a" * 64,
        verdict="accepted",
        round=1,
        life="f" * 16,
        cursor=2**53 - 1,
    )
    names = [f"{i:064d}" for i in range(2 * MAX_DECISIONS)]
    keys = {node: f"{i:064x}" for i, node in enumerate(names[: MAX_MEMBERS - 1])}
    roster = founded(start.run, "9" * 64, {"leader": "8" * 64, **keys})
    manifest = attrs.evolve(
        start,
        ledger=tuple(
            attrs.evolve(register, stream=node[-16:], node=node) for node in names
        ),
        standings=tuple(
            Standing(node=node, strikes=999, until=8, round=1, reason="é" * 100)
            for node in names
        ),
        roster=attrs.evolve(roster, signature="f" * 128),
    )
    data = encode(manifest, "f" * 128)
    assert len(data) > 6 * 2**20
    assert manifest == parse(data)


def _set(*path: Any) -> Callable[[dict[str, Any]], None]:
    *parents, last, value = path

    def change(plain_manifest: dict[str, Any]) -> None:
        target: Any = plain_manifest
        for key in parents:
            target = target[key]
        target[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_set("extra", 1), "unknown key 'extra'"),
        (_set("serial", -1), "serial"),
        (_set("run", "x"), "run"),
        (_set("limits", "window", 1), "window: expected at least the staleness 2"),
        (_set("limits", "staleness", 0), "staleness: expected 1 to 1000"),
        (_set("outer", "momentum", None), "a finite number or a text"),
        (_set("recent", []), "found 0 round ids"),
        (_set("recent", -1, "0" * 64), "expected the round id last"),
        (_set("weights", "name", "../model.safetensors"), "weights.name"),
        (_set("weights", "sha256", "x"), "weights.sha256"),
        (_set("accepted", ["manifest.json"]), "accepted"),
        (_set("accepted", []), "found 0 deltas at round 3"),
        (_set("refused", 0, "verdict", "accepted"), "refused"),
        (_set("refused", 0, "reason", "x" * 301), "refused"),
        (_set("ledger", OTHER, "seq", 0), "ledger"),
        (_set("ledger", OTHER, "round", 99), "outside the window"),
        (_set("ledger", "not-a-stream", {}), "ledger"),
        (_set("lease", "life", "x"), "lease"),
        (_set("nonce", "x"), "nonce"),
        (_set("previous", None), "previous"),
        (_set("serial", 1), "at least the round 3"),
    ],
    ids=count(),
)
def test_a_wrong_manifest_is_corrupt(
    change: Callable[[dict[str, Any]], None], told: str
) -> None:
    """Each contradiction is named, also when the id was made to fit."""
    value = json.loads(encode(full()))
    del value["id"], value["signature"]
    change(value)
    value |= {"id": plain.digest(value), "signature": None}
    with pytest.raises(Corrupt, match=told):
        parse(plain.encode(value))


def test_deltas_are_listed_in_one_order() -> None:
    """A list in another order, or a stream twice, is refused."""
    manifest = genesis()
    two = [header(manifest), header(manifest, stream=OTHER, node="other")]
    value = json.loads(encode(accept(manifest, *two)))
    for names in (value["accepted"][::-1], value["accepted"][:1] * 2):
        changed = {**value, "accepted": names}
        del changed["id"], changed["signature"]
        changed |= {"id": plain.digest(changed), "signature": None}
        with pytest.raises(Corrupt, match="accepted"):
            parse(plain.encode(changed))


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (Limits(), []),
        (Limits(staleness=0), ["staleness: expected 1 to 1000, found 0"]),
        (
            Limits(staleness=9, window=8),
            ["window: expected at least the staleness 9, found 8"],
        ),
        (Limits(per_round=21), ["per_round: expected 1 to 20, found 21"]),
        (
            Limits(window=1000, per_round=20),
            ["window x per_round: expected at most 4096, found 20000"],
        ),
    ],
)
def test_limits_are_checked(limits: Limits, told: list[str]) -> None:
    """Those that would lose or count work twice are refused in words."""
    assert told == limits.problems()


def test_rounds_are_found_by_number() -> None:
    """Only the last ones are remembered."""
    manifest = rounds(genesis(), 4)
    assert manifest.round_id == manifest.recent_id(4)
    assert manifest.recent[0] == manifest.recent_id(2)
    assert manifest.recent_id(1) is None
    assert manifest.recent_id(5) is None
