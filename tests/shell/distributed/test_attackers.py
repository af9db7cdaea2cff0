"""Somebody with the right to write to the lane, and a run that goes on.

The nodes, their files and signatures are real; what the attacker writes is what the
token of a repository allows.
"""

from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import torch
from tests.shell.distributed.toy import LINEAGE, RULE, Toy, coordinator, model, until

from speedtronic.pure.delta import Delta
from speedtronic.pure.outer import init_outer
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names
from speedtronic.pure.round.header import Header
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.master import leads
from speedtronic.shell.distributed.coordinator import Coordinator
from speedtronic.shell.distributed.files import payload_of, write_delta
from speedtronic.shell.distributed.look import read_view
from speedtronic.shell.distributed.replay import replay
from speedtronic.shell.distributed.trust import Trust, signature_of, signed_manifest
from speedtronic.shell.keys import Key
from speedtronic.shell.lanes.base import ANY
from speedtronic.shell.lanes.memory import MemoryLane

OWN, THIEF = Key(bytes(range(32))), Key(bytes(range(1, 33)))
HUGE = 1e9


def node(lane: MemoryLane, folder: Path) -> Coordinator:
    """The one honest node, which leads; its key is the roster's."""
    return coordinator(lane, folder, key=OWN)


def newest(lane: MemoryLane) -> Manifest:
    """The manifest at the head, whoever wrote it."""
    return manifests.parse(lane.read(names.MANIFEST, str(lane.head())))


def header(manifest: Manifest, delta: Delta, **changes: object) -> Header:
    """Of a delta that would count, but for who signs it."""
    payload = payload_of(delta)
    told = Header(
        run=manifest.run,
        lineage=LINEAGE,
        node="a",
        stream="e" * 16,
        life="e" * 16,
        seq=1,
        after=None,
        base_round=manifest.round,
        base_id=manifest.round_id,
        cursor=1,
        inner_steps=1,
        tokens=1,
        codec="none",
        payload=payload.sha256,
        payload_bytes=payload.bytes,
    )
    return attrs.evolve(told, **changes)


def forged_delta(
    lane: MemoryLane, folder: Path, key: Key | None, **changes: object
) -> None:
    """Put a delta that would ruin the model under a node's name."""
    delta = Delta(params={"w": torch.full((3,), HUGE)}, buffers={})
    told = header(newest(lane), delta, **changes)
    path = folder / "forged"
    write_delta(path, delta, told, signature_of(told, key))
    lane.commit({told.name.path: path}, parent=ANY)
    path.unlink()


def unsigned_delta(lane: MemoryLane, folder: Path) -> None:
    """In the name of a member."""
    forged_delta(lane, folder, None)


def delta_of_another_key(lane: MemoryLane, folder: Path) -> None:
    """In the name of a member, signed by the thief."""
    forged_delta(lane, folder, THIEF)


def delta_of_a_stranger(lane: MemoryLane, folder: Path) -> None:
    """In a name of its own, signed as it should be."""
    forged_delta(lane, folder, THIEF, node="thief")


def delta_on_a_wrong_base(lane: MemoryLane, folder: Path) -> None:
    """On a round of another history."""
    forged_delta(lane, folder, OWN, base_id="0" * 64)


def oversize_delta(lane: MemoryLane, folder: Path) -> None:
    """Nobody downloads it."""
    name = header(newest(lane), Delta(params={"w": torch.ones(3)}, buffers={})).name
    lane.commit({name.path: bytes(2**21)}, parent=ANY)


def forged_leader(lane: MemoryLane, folder: Path) -> None:
    """A next manifest with other weights, signed by the thief."""
    old = newest(lane)
    weights = attrs.evolve(old.weights, sha256="0" * 64)
    new = attrs.evolve(old, serial=old.serial + 1, previous=old.id, weights=weights)
    data = {names.MANIFEST: signed_manifest(new, THIEF), names.WEIGHTS: b"ruin"}
    lane.commit(dict(data), parent=ANY)


def rolled_back(lane: MemoryLane, folder: Path) -> None:
    """The manifest, the weights and the momentum of round 0, all as they were."""
    first = names.kept(0, names.MANIFEST)
    data = lane.read(first, str(lane.head()))
    lane.commit({names.MANIFEST: data}, parent=ANY)


def everything_deleted(lane: MemoryLane, folder: Path) -> None:
    """What the token allows, too."""
    head = str(lane.head())
    lane.commit({"mine": b"now"}, tuple(lane.names("", head)), parent=ANY)


def weights_replaced(lane: MemoryLane, folder: Path) -> None:
    """The manifest stays as it is."""
    lane.commit({names.WEIGHTS: b"ruin"}, parent=ANY)


def a_name_in_the_way(lane: MemoryLane, folder: Path) -> None:
    """Where the next round would be kept."""
    kept = names.kept(newest(lane).round + 1, names.MANIFEST)
    lane.commit({f"{kept}/x": b"", "NODES/x": b""}, parent=ANY)


def garbage(lane: MemoryLane, folder: Path) -> None:
    """Over the root."""
    lane.commit({names.MANIFEST: b"{" * 1000}, parent=ANY)


@pytest.mark.parametrize(
    "attack",
    [
        unsigned_delta,
        delta_of_another_key,
        delta_of_a_stranger,
        delta_on_a_wrong_base,
        oversize_delta,
        forged_leader,
        rolled_back,
        everything_deleted,
        weights_replaced,
        a_name_in_the_way,
        garbage,
    ],
)
def test_an_attack_costs_nothing_that_was_trained(
    attack: Callable[[MemoryLane, Path], None], tmp_path: Path
) -> None:
    """After it, a round counts what the node trained, and nothing else."""
    lane, toy = MemoryLane(), Toy()
    with node(lane, tmp_path / "node") as honest:
        until(honest, toy, lambda: honest.may_train)
        work(honest, toy, lane)
        attack(lane, tmp_path)
        work(honest, toy, lane)
        assert honest.master is not None and leads(honest.master)
        view = read_view(lane, str(lane.head()), Trust(owner=OWN.public))
    assert view.manifest is not None
    assert {"a"} == {r.node for r in view.manifest.ledger}
    assert torch.equal(torch.full((3,), 8.0), toy.weights_now.params["w"])
    if attack is not everything_deleted:
        assert replay(lane, owner=OWN.public).ok


def work(honest: Coordinator, toy: Toy, lane: MemoryLane) -> None:
    """Four steps, which are a delta, and the round that counts it."""
    before = honest.worker.record.base_round
    for _ in range(4):
        toy.step()
        honest.boundary(toy, steps=1, tokens=1, cursor=toy.cursor)
    until(honest, toy, lambda: honest.worker.record.base_round > before)


def test_a_run_of_the_toy_is_signed(tmp_path: Path) -> None:
    """Or the attacks would prove nothing."""
    lane, toy = MemoryLane(), Toy()
    with node(lane, tmp_path) as honest:
        until(honest, toy, lambda: honest.may_train)
    roster = newest(lane).roster
    assert roster is not None
    assert (OWN.public, ["a"]) == (roster.owner, [m.node for m in roster.members])
    assert init_outer(model(), RULE.outer).round == newest(lane).round
