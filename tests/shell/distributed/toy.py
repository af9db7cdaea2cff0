"""A node without a model: real coordinator, real files, a vector for the training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import torch
from torch import Tensor

from speedtronic.pure.delta import Weights
from speedtronic.pure.outer import OuterRule, init_outer
from speedtronic.pure.progress import Progress
from speedtronic.pure.round.admit import Bounds
from speedtronic.pure.round.chain import run_id
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.manifest import Manifest
from speedtronic.pure.round.master import Genesis, MasterSettings, start_master
from speedtronic.pure.round.record import Record
from speedtronic.pure.round.roster import founded
from speedtronic.pure.round.rule import RoundRule, to_numbers
from speedtronic.pure.round.worker import WorkerSettings, start_worker
from speedtronic.pure.tree import tree_map
from speedtronic.shell.distributed.coordinator import Coordinator, HandedOver, Parts
from speedtronic.shell.distributed.follower import Follower
from speedtronic.shell.distributed.leader import Leader
from speedtronic.shell.distributed.look import Looker
from speedtronic.shell.distributed.saved import from_checkpoint
from speedtronic.shell.distributed.trust import Trust, signed_roster
from speedtronic.shell.keys import Key
from speedtronic.shell.lanes.base import Lane

LINEAGE = "ab" * 32
RULE = RoundRule(outer=OuterRule(learning_rate=1.0, momentum=0.0))
PATIENCE_S = 60.0  # far more than any of these waits takes


def model(value: float = 0.0) -> Weights:
    """Of one parameter and one buffer."""
    return Weights(
        params={"w": torch.full((3,), value)}, buffers={"n": torch.tensor(0)}
    )


LIKES: Weights = tree_map(lambda x: x.to("meta"), model())


@attrs.define
class Toy:
    """A training whose step adds one; it keeps its checkpoints in memory."""

    weights_now: Weights = attrs.field(factory=lambda: model(-1.0))
    cursor: int = 0
    resets: int = 0
    saves: list[tuple[Weights, dict[str, Any], dict[str, Tensor]]] = attrs.field(
        factory=list
    )

    def step(self) -> None:
        """One inner step."""
        moved = {"w": self.weights_now.params["w"] + 1.0}
        self.weights_now = attrs.evolve(self.weights_now, params=moved)
        self.cursor += 1

    def weights(self) -> Weights:
        """See `Training`."""
        return self.weights_now

    def install(
        self, weights: Weights | None, cursor: int | None, reset_optimizer: bool
    ) -> None:
        """See `Training`."""
        if weights is not None:
            self.weights_now = tree_map(torch.clone, weights)
        if cursor is not None:
            self.cursor = cursor
        self.resets += reset_optimizer

    def hand_over(self) -> HandedOver:
        """See `Training`."""
        copy: Weights = tree_map(torch.clone, self.weights_now)

        def save(values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
            self.saves.append((copy, dict(values), dict(tensors)))

        return HandedOver(weights=copy, save=save)


def coordinator(
    lane: Lane,
    folder: Path,
    *,
    node: str = "a",
    life: str = "1" * 16,
    leads: bool = True,
    begins: bool = True,
    saved: tuple[Mapping[str, Any], Mapping[str, Tensor]] | None = None,
    grace_s: float = 0.0,
    key: Key | None = None,
    **settings: Any,
) -> Coordinator:
    """A node of a run on a lane, with the shortest of times; signed if it has a key."""
    for part in ("follower", "leader"):
        (folder / part).mkdir(parents=True)
    record: Record | None = None
    progress: Progress | None = None
    if saved is not None:
        found = from_checkpoint(*saved, likes=LIKES)
        assert found is not None
        record, progress = found
    own = {"inner_steps": 4, "poll_s": 0.01, "retry_initial_s": 0.01, **settings}
    own["key"] = key.public if key else ""
    worker = start_worker(
        WorkerSettings(node=node, life=life, lineage=LINEAGE, **own), 0.0, record
    )
    leader = Leader(lane, folder / "leader", LIKES, {}, key=key)
    genesis = None
    if begins and leads:
        weights, momentum = leader.make(init_outer(model(), RULE.outer))
        roster = None
        if key is not None:
            run = run_id(LINEAGE, weights, life, key.public)
            roster = signed_roster(founded(run, key.public, {node: key.public}), key)
        genesis = Genesis(weights=weights, momentum=momentum, roster=roster)
    master = start_master(
        MasterSettings(
            node=node,
            life=life,
            key=key.public if key else "",
            lineage=LINEAGE,
            limits=Limits(),
            outer=to_numbers(RULE),
            bounds=Bounds(payload_bytes=100),
            genesis=genesis,
            grace_s=grace_s,
            poll_s=0.01,
            retry_initial_s=0.01,
        ),
        0.0,
    )
    parts = Parts(
        looker=Looker(lane, Trust(signed=key is not None)),
        follower=Follower(lane, folder / "follower", LIKES, key),
        leader=leader,
        remember=lambda run: None,
    )
    return Coordinator(parts, worker, master if leads else None, progress)


def meet(node: Coordinator, toy: Toy, steps: int = 0) -> None:
    """A boundary, with everything that is ready."""
    node.boundary(toy, steps=steps, tokens=10 * steps, cursor=toy.cursor)


def trained(node: Coordinator, toy: Toy, steps: int) -> None:
    """So many steps, with a boundary after each."""
    for _ in range(steps):
        toy.step()
        meet(node, toy, steps=1)


def until(node: Coordinator, toy: Toy, what: Any) -> None:
    """Boundaries without steps, until something holds."""
    import time

    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, f"{node.worker}\n{node.master}"
        node.wait(0.01)
        meet(node, toy)


def manifest(lane: Lane) -> Manifest:
    """The newest one."""
    found = Looker(lane).look().manifest
    assert found is not None
    return found
