"""What is said of a run."""

from typing import Any

import pytest
from tests.shell.distributed.tampering import (
    ANCHOR,
    FIRST,
    HEAD,
    content,
    flipped,
    forged,
    kept,
    lane_of,
    lane_with,
    manifest,
)

from speedtronic.errors import ConfigError, Corrupt
from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names
from speedtronic.shell.distributed import status as module
from speedtronic.shell.distributed.status import PARTS, Status, status
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.testing.runs import STEPS, TOKENS, recorded_run


def spoiled(changes: dict[str, bytes | None]) -> Status:
    """What is said of the run with these changes."""
    return status(lane_of({**content(), **changes}))


def waiting() -> list[str]:
    """The names of undecided deltas."""
    return [name for name in content() if name.startswith(names.NODES)]


def test_a_run_is_told_as_its_manifest_says() -> None:
    """Round and serial instead of a time."""
    head = manifests.parse(content()[names.MANIFEST])
    found = status(lane_with())

    assert (head.run, head.lineage, HEAD, head.serial) == (
        found.run,
        found.lineage,
        found.round,
        found.serial,
    )
    assert (head.lease, head.outer) == (found.lease, found.outer)
    assert len(head.accepted) == found.counted


def test_every_node_is_told_with_what_waits() -> None:
    """Two of three have delivered again."""
    found = {node.node: node for node in status(lane_with()).nodes}

    assert ["node-0", "node-1", "node-2"] == list(found)
    assert [1, 0, 1] == [node.waiting for node in found.values()]
    assert all(node.unread == 0 for node in found.values())
    for node in found.values():
        assert node.steps % STEPS == 0 and node.steps >= node.waiting * STEPS
        assert node.tokens * STEPS == node.steps * TOKENS


def test_a_node_is_as_far_behind_as_its_last_counted_delta() -> None:
    """Kept rounds know it, also when the ledger has only a refusal."""
    for seed in range(4):
        lane = MemoryLane()
        recorded_run(lane, 5, nodes=3, seed=seed)
        counted: dict[str, int] = {}
        for round in range(1, 6):
            data = lane.read(kept(round), str(lane.head()))
            counted |= {n.node: round for n in manifests.parse(data).accepted}
        for node in status(lane).nodes:
            last = counted.get(node.node)
            assert last == node.counted_round
            assert (None if last is None else 5 - last) == node.behind


def test_the_parts_of_the_lane_add_up() -> None:
    """Every byte belongs to one of them."""
    files = {**content(), "README.md": b"12345"}
    found = status(lane_of(files)).sizes

    assert PARTS == tuple(found)
    assert sum(map(len, files.values())) == sum(found.values())
    assert 5 == found["other"]
    weights, momentum = manifest(ANCHOR).weights, manifest(ANCHOR).momentum
    assert 2 * (weights.bytes + momentum.bytes) == found["anchors"]
    assert sum(len(content()[name]) for name in waiting()) == found["waiting deltas"]


def test_what_can_be_replayed_is_told() -> None:
    """Anchors, and the rounds behind them."""
    found = status(lane_with())

    assert (FIRST, ANCHOR) == found.anchors
    assert ((FIRST + 1, HEAD),) == found.replayable
    assert (6, ()) == (found.checked, found.problems)


def test_a_chain_that_does_not_verify_is_told_by_round() -> None:
    """From the manifests alone."""
    found = spoiled({**flipped(kept(6)), **forged(8, outer=())})

    assert 4 == found.checked
    assert [6, 8] == [int(line.split(":")[0].split()[1]) for line in found.problems]


def test_what_is_inside_of_kept_files_is_not_read() -> None:
    """That is what a replay is for."""
    files = {
        name: b"" if name.endswith(".safetensors") and "rounds/" in name else data
        for name, data in content().items()
    }

    assert () == status(lane_of(files)).problems


def test_a_refusal_is_told_with_its_reason() -> None:
    """As long as the manifest that says so is the newest."""
    assert () == status(lane_with()).notes
    name = manifest(9).accepted[0]
    refused = (manifests.Refusal(name, "drop", "not finite after 50 steps"),)
    (told,) = spoiled(
        {names.MANIFEST: next(iter(forged(HEAD, refused=refused).values()))}
    ).notes

    assert f"{name.node}, delta {name.seq}: refused (drop), not finite" in told


def test_a_delta_that_can_never_count_is_told() -> None:
    """Its node will find out at its next look."""
    name = manifest(9).accepted[0]
    found = spoiled({name.path: content()[name.kept(9)]})

    (told,) = found.notes
    assert told == f"{name.node}, delta {name.seq}: cannot count, repeated: it was " + (
        "decided before"
    )


@pytest.mark.parametrize("data", [b"hello", b""], ids=["text", "nothing"])
def test_a_file_that_is_no_delta_is_told(data: bytes) -> None:
    """It counts as waiting, without work in it."""
    found = spoiled({waiting()[0]: data})
    node = next(node for node in found.nodes if node.unread)

    assert (1, 1, 0, 0) == (node.waiting, node.unread, node.steps, node.tokens)
    (told,) = found.notes
    assert f"{node.node}, delta " in told
    assert ": is no delta, its file is not a whole safetensors file" in told


def test_large_deltas_are_counted_by_their_names(monkeypatch: Any) -> None:
    """Nobody waits for a download to be told how a run stands."""
    monkeypatch.setattr(module, "MAX_BYTES", len(content()[waiting()[0]]))
    found = status(lane_with())

    assert 1 == sum(node.unread for node in found.nodes)
    assert ("waiting deltas that are large and were not read: 1",) == found.notes


def test_a_run_that_keeps_nothing_is_told() -> None:
    """Its newest model can be had, its rounds cannot be replayed."""
    lane = MemoryLane()
    recorded_run(lane, 2, keep=0)
    found = status(lane)

    assert ((), (), ()) == (found.anchors, found.replayable, found.problems)


def test_no_run_and_no_manifest_are_told() -> None:
    """As a replay does."""
    with pytest.raises(ConfigError, match="holds no run"):
        status(MemoryLane())
    with pytest.raises(Corrupt, match=r"^manifest\.json"):
        spoiled(flipped(names.MANIFEST))
