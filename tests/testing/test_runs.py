"""Runs that are made up."""

from functools import cache

from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names
from speedtronic.pure.round.manifest import Manifest
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.testing.runs import recorded_run

ROUNDS = 5


@cache
def runs() -> list[list[Manifest]]:
    """The kept manifests of a few."""
    found = []
    for seed in range(4):
        lane = MemoryLane()
        recorded_run(lane, ROUNDS, seed=seed)
        places = [names.kept(round, names.MANIFEST) for round in range(ROUNDS + 1)]
        data = [lane.read(place, str(lane.head())) for place in places]
        found.append([manifests.parse(text) for text in data])
    return found


def test_the_same_seed_gives_the_same_run() -> None:
    """Bit for bit; another seed gives another one."""
    ids = [recorded_run(MemoryLane(), 2, seed=seed).id for seed in (7, 7, 8)]

    assert ids[0] == ids[1] != ids[2]


def test_what_happens_in_a_run_happens_here() -> None:
    """Nodes miss rounds, leaders change, manifests are made between two rounds, and a
    refusal leaves its mark."""
    kept = [manifest for run in runs() for manifest in run]
    counts = {len(manifest.accepted) for manifest in kept if manifest.round}

    assert {1, 2, 3} == counts
    assert max(manifest.lease.epoch for manifest in kept) > 0
    assert any(manifest.serial > manifest.round for manifest in kept)
    assert any(r.verdict == "drop" for manifest in kept for r in manifest.ledger)


def test_it_has_as_many_rounds_as_asked_for() -> None:
    """And as many deltas waiting."""
    for run in runs():
        assert list(range(ROUNDS + 1)) == [manifest.round for manifest in run]
    lane = MemoryLane()
    recorded_run(lane, 1, nodes=4, waiting=3)
    listed = tuple(lane.names(names.NODES, str(lane.head())))

    assert 3 == len(names.delta_names(listed))
