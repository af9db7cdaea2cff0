"""Manifests that are believed, and those that are not."""

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from speedtronic.errors import Corrupt
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import plain
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.roster import Member, added, removed
from speedtronic.shell.distributed.trust import Trust, signed_manifest, signed_roster
from speedtronic.shell.keys import Key
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.testing.runs import made_up_keys, recorded_run

KEYS = made_up_keys(3)
OWNER, THIEF = KEYS["node-0"], Key(bytes(range(32)))


def newest() -> Manifest:
    """Of a signed run of two rounds."""
    return recorded_run(MemoryLane(), rounds=2, keys=KEYS)


def data(manifest: Manifest) -> bytes:
    """As the holder of the lease publishes it."""
    return signed_manifest(manifest, KEYS[manifest.lease.node])


def test_what_a_master_signed_is_believed() -> None:
    """And tells who the owner is, from then on."""
    trust, manifest = Trust(), newest()
    assert manifest == trust.manifest(data(manifest))
    assert (OWNER.public, 1) == (trust.owner, trust.version)


def forged_by_a_thief(manifest: Manifest) -> bytes:
    """Whoever has the repository's token can write a file."""
    return signed_manifest(attrs.evolve(manifest, nonce=f"{'0' * 16}-1"), THIEF)


def signed_by_another_member(manifest: Manifest) -> bytes:
    """It names one holder, and another one signed."""
    others = [key for node, key in KEYS.items() if node != manifest.lease.node]
    return signed_manifest(manifest, others[0])


def not_signed(manifest: Manifest) -> bytes:
    """As in an open run."""
    return manifests.encode(manifest)


def with_the_old_signature(manifest: Manifest) -> bytes:
    """The content changes, its id is right, the signature is that of before."""
    signature = json.loads(data(manifest))["signature"]
    return manifests.encode(attrs.evolve(manifest, nonce=f"{'0' * 16}-2"), signature)


def a_roster_of_ones_own(manifest: Manifest) -> bytes:
    """The thief lets itself in, and cannot sign for the owner."""
    assert manifest.roster
    member = Member(node="thief", key=THIEF.public, role="master")
    roster = signed_roster(added(manifest.roster, member), THIEF)
    lease = attrs.evolve(manifest.lease, node="thief")
    return signed_manifest(attrs.evolve(manifest, roster=roster, lease=lease), THIEF)


def a_worker_that_leads(manifest: Manifest) -> bytes:
    """Its key is known, its role is not to publish."""
    assert manifest.roster
    node = manifest.lease.node
    held = manifest.roster.member(node)
    assert held
    worker = attrs.evolve(held, role="worker")
    roster = signed_roster(added(manifest.roster, worker), OWNER)
    return signed_manifest(attrs.evolve(manifest, roster=roster), KEYS[node])


@pytest.mark.parametrize(
    ("forge", "told"),
    [
        (forged_by_a_thief, "it is not signed by the key of node"),
        (signed_by_another_member, "it is not signed by the key of node"),
        (not_signed, "it is not signed by the key of node"),
        (with_the_old_signature, "it is not signed by the key of node"),
        (a_roster_of_ones_own, "the roster is not signed by its owner"),
        (a_worker_that_leads, "is not a master in the roster"),
    ],
)
def test_a_forged_manifest_is_refused(
    forge: Callable[[Manifest], bytes], told: str
) -> None:
    """By one who never saw the run before, too."""
    with pytest.raises(Corrupt, match=told):
        Trust().manifest(forge(newest()))


def test_another_owner_is_refused() -> None:
    """A whole run of a thief's, signed in every way, is not this run."""
    own = recorded_run(MemoryLane(), rounds=1, keys={"node-0": THIEF}, nodes=1)
    trust = Trust()
    trust.manifest(data(newest()))
    with pytest.raises(Corrupt, match="expected the run of owner"):
        trust.manifest(signed_manifest(own, THIEF))
    with pytest.raises(Corrupt, match="expected the run of owner"):
        Trust(owner=OWNER.public).manifest(signed_manifest(own, THIEF))


def test_an_open_run_is_refused_where_a_signed_one_was() -> None:
    """Or where the user asked for one."""
    start = recorded_run(MemoryLane(), rounds=1)
    assert start == Trust().manifest(manifests.encode(start))
    for trust in (Trust(signed=True), Trust(owner=OWNER.public)):
        with pytest.raises(Corrupt, match="expected a signed run, found no roster"):
            trust.manifest(manifests.encode(start))


def test_a_revoked_key_stays_revoked() -> None:
    """Its last roster cannot be brought back to one who has seen a newer one."""
    manifest = newest()
    assert manifest.roster
    gone = next(n for n in KEYS if n != manifest.lease.node)
    roster = signed_roster(removed(manifest.roster, gone), OWNER)
    trust = Trust()
    trust.manifest(data(attrs.evolve(manifest, roster=roster)))
    again = attrs.evolve(manifest, lease=attrs.evolve(manifest.lease, node=gone))
    with pytest.raises(Corrupt, match="went back from version 2 to 1"):
        trust.manifest(data(again))
    assert again == trust.manifest(data(again), kept=True)  # of a round before that


@pytest.mark.parametrize("place", [0.2, 0.5, 0.9])
def test_a_bit_of_a_proposal_matters(place: float) -> None:
    """A roster is the owner's word for word."""
    manifest = newest()
    assert manifest.roster
    member = Member(node="new", key="5" * 64, role="worker")
    asked = signed_roster(added(manifest.roster, member), OWNER)
    text = plain.encode(_plain(asked))
    assert asked == Trust().proposal(text, manifest)
    at = int(len(text) * place)
    with pytest.raises(Corrupt):
        Trust().proposal(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :], manifest)


def _plain(roster: Any) -> Any:
    from speedtronic.pure.round.roster import to_plain

    return to_plain(roster)
