"""What a node tells of itself while it runs: ``node.json`` in its run folder.

Whoever watches a node, such as ``speedtronic swarm``, reads this file. It is replaced
as a whole, is not synced, and nothing goes by it.
"""

import os
import time
from pathlib import Path
from typing import Any

import attrs

from speedtronic.errors import Corrupt
from speedtronic.pure.round import plain
from speedtronic.pure.round.worker import may_train
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.shell.distributed.coordinator import Coordinator
from speedtronic.shell.lanes.counted import CountedLane
from speedtronic.shell.modes import open_text
from speedtronic.shell.regular import read_limited

FILE = "node.json"
MAX_BYTES = 1 << 16
EVERY_S = 0.5


@attrs.frozen(kw_only=True)
class NodeReport:
    """One moment of a node."""

    node: str
    state: str  # joining, training, waiting, stopping, stopped or halted
    leads: bool
    round: int  # of the newest global that was seen, -1 for none
    base_round: int  # of the global that it trains on, -1 before it has joined
    pending: bool  # whether a delta waits for its decision
    steps: int  # of work that is in no delta yet
    bytes_up: int
    bytes_down: int
    commits: int


def report(coordinator: Coordinator, lane: CountedLane) -> NodeReport:
    """How a node stands now."""
    state, leader = coordinator.worker, coordinator.master
    record = state.record
    seen = [record.base_round]
    if state.staged is not None:
        seen.append(state.staged.manifest.round)
    if leader is not None and leader.manifest is not None:
        seen.append(leader.manifest.round)
    word = "training" if may_train(state) else "waiting"
    if not record.joined:
        word = "joining"
    if state.stop_s is not None:
        word = "stopping"
    if coordinator.stopped:
        word = "stopped"
    return NodeReport(
        node=record.node,
        state="halted" if coordinator.halted else word,
        leads=coordinator.leads,
        round=max(seen),
        base_round=record.base_round,
        pending=record.pending is not None,
        steps=record.unsent.steps,
        bytes_up=lane.bytes_up,
        bytes_down=lane.bytes_down,
        commits=lane.commits,
    )


class Reporter:
    """Keeps ``node.json`` up to date; call it as often as you like."""

    def __init__(self, folder: Path, lane: CountedLane) -> None:
        self._path, self._lane = folder / FILE, lane
        self._told: NodeReport | None = None
        self._at_s = float("-inf")

    def __call__(self, coordinator: Coordinator) -> None:
        """Write the file if something has changed, now and then."""
        now_s = time.monotonic()
        if now_s - self._at_s < EVERY_S and not coordinator.stopped:
            return
        self._at_s = now_s
        found = report(coordinator, self._lane)
        if found != self._told:
            self._told = found
            temporary = self._path.with_suffix(".new")
            with open_text(temporary, "w") as file:
                file.write(to_json(attrs.asdict(found)))
            os.replace(temporary, self._path)


def read_report(folder: Path) -> NodeReport | None:
    """What a node told last; None if it told nothing that can be read."""
    try:
        value = from_json(read_limited(folder / FILE, MAX_BYTES))
        return NodeReport(**plain.record(value, FILE, _READERS))
    except (Corrupt, OSError, ValueError):
        return None


_READERS: dict[str, plain.Reader[Any]] = {
    "node": plain.words(64),
    "state": plain.words(64),
    "leads": plain.boolean,
    "round": plain.integer(-1),
    "base_round": plain.integer(-1),
    "pending": plain.boolean,
    "steps": plain.integer(),
    "bytes_up": plain.integer(),
    "bytes_down": plain.integer(),
    "commits": plain.integer(),
}
