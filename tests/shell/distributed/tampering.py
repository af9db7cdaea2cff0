"""A run of nine rounds on a lane, and ways of spoiling it."""

from collections.abc import Callable
from functools import cache
from typing import Any

import attrs

from speedtronic.pure.round import manifest as manifests
from speedtronic.pure.round import names
from speedtronic.pure.round.manifest import Manifest
from speedtronic.shell.distributed.replay import Replayed, replay
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.testing.runs import recorded_run

Changes = dict[str, bytes | None]
# Kept are rounds 4 to 9. Anchors are 4 and 8, and 9 is the head.
FIRST, ANCHOR, HEAD = 4, 8, 9


@cache
def content() -> dict[str, bytes]:
    """Everything on the lane of the run."""
    lane = MemoryLane()
    recorded_run(lane, rounds=HEAD, nodes=3, seed=5, keep=4, waiting=2)
    revision = str(lane.head())
    return {name: lane.read(name, revision) for name in lane.names("", revision)}


def lane_with(**changes: bytes | None) -> MemoryLane:
    """The run, with other content for some names; None takes one away."""
    return lane_of({**content(), **changes})


def lane_of(files: dict[str, bytes | None]) -> MemoryLane:
    """A lane that holds this."""
    lane = MemoryLane()
    kept = {name: data for name, data in files.items() if data is not None}
    lane.commit(kept, parent=None)
    return lane


def kept(round: int, name: str = names.MANIFEST) -> str:
    """Where a file of a round lies."""
    return names.kept(round, name)


def deltas(round: int) -> list[str]:
    """Where the deltas that counted in a round lie."""
    return [name.kept(round) for name in manifest(round).accepted]


def manifest(round: int) -> Manifest:
    """The kept manifest of a round."""
    return manifests.parse(content()[kept(round)])


def forged(round: int, **changes: Any) -> dict[str, bytes | None]:
    """A kept manifest with other fields; its own hash is right."""
    new = attrs.evolve(manifest(round), **changes)
    return {kept(round): manifests.encode(new)}


def forged_everywhere(**changes: Any) -> dict[str, bytes | None]:
    """All manifests, which agree on something that was not so."""
    files: dict[str, bytes | None] = {}
    head = manifests.parse(content()[names.MANIFEST])
    places = {kept(round): manifest(round) for round in range(FIRST, HEAD + 1)}
    before: Manifest | None = None
    for place, old in {**places, names.MANIFEST: head}.items():
        new = attrs.evolve(old, **changes)
        if before and before.serial == new.serial:
            new = before
        elif before and before.serial == new.serial - 1:
            new = attrs.evolve(new, previous=before.id)
        files[place] = manifests.encode(new)
        before = new
    return files


def flipped(name: str, byte: int = -1, bit: int = 0) -> dict[str, bytes | None]:
    """A file with another bit, by default in its last byte."""
    return changed(name, lambda data: flip(data, byte, bit))


def flip(data: bytes, byte: int, bit: int) -> bytes:
    """The same bytes but for one bit."""
    found = bytearray(data)
    found[byte] ^= 1 << bit
    return bytes(found)


def changed(name: str, how: Callable[[bytes], bytes]) -> dict[str, bytes | None]:
    """A file with other content."""
    return {name: how(content()[name])}


def problems(found: Replayed) -> dict[int, str]:
    """What was wrong, by round."""
    return {r.round: r.problem for r in found.rounds if r.problem}


def spoiled(changes: Changes) -> dict[int, str]:
    """What a replay says of the run with these changes."""
    return problems(replay(lane_of({**content(), **changes})))
