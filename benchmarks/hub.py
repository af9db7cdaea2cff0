"""Many workers and one leader on an emulated Hub that is as slow as the real one.

    python benchmarks/hub.py [--workers 16] [--rounds 50] [--latency 0.3,3] [--inner 60]

Every node is a real coordinator with its own lane over HTTP, in a thread of its own;
its training is a vector and a step that sleeps for a second, so that communication is
all there is to measure. Prints commits, requests, conflicts, how many deltas a round
took, and which share of its time a training thread was held up, on average and at most.
"""

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import torch
from torch import Tensor

from speedtronic.pure.config.base import Secret
from speedtronic.pure.delta import Weights
from speedtronic.pure.outer import OuterRule, init_outer
from speedtronic.pure.round.admit import Bounds
from speedtronic.pure.round.limits import Limits
from speedtronic.pure.round.master import Genesis, MasterSettings, start_master
from speedtronic.pure.round.rule import RoundRule, to_numbers
from speedtronic.pure.round.worker import WorkerSettings, start_worker
from speedtronic.pure.tree import tree_map
from speedtronic.shell.distributed.coordinator import Coordinator, HandedOver, Parts
from speedtronic.shell.distributed.follower import Follower
from speedtronic.shell.distributed.leader import Leader
from speedtronic.shell.distributed.look import Looker
from speedtronic.shell.lanes.hub.lane import HubLane
from speedtronic.shell.lanes.hub.options import HubOptions
from speedtronic.testing.hub import HubEmulator

SIZE = 10_000
STEP_S = 1.0
LINEAGE = "ab" * 32
RULE = RoundRule(outer=OuterRule(learning_rate=0.7, momentum=0.9))
REPOSITORY = "lab/run"


def model() -> Weights:
    """Of one vector."""
    return Weights(params={"w": torch.zeros(SIZE)}, buffers={})


LIKES: Weights = tree_map(lambda x: x.to("meta"), model())


@attrs.define
class Training:
    """A vector; see `coordinator.Training`."""

    now: Weights = attrs.field(factory=model)
    cursor: int = 0

    def weights(self) -> Weights:
        """As it is."""
        return self.now

    def install(
        self, weights: Weights | None, cursor: int | None, reset_optimizer: bool
    ) -> None:
        """Take others."""
        if weights is not None:
            self.now = tree_map(torch.clone, weights)
        self.cursor = self.cursor if cursor is None else cursor

    def hand_over(self) -> HandedOver:
        """A copy; nothing is written."""

        def save(values: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
            """A checkpoint would go to the disk, which is measured elsewhere."""

        return HandedOver(weights=tree_map(torch.clone, self.now), save=save)


@attrs.define
class Node:
    """A thread that trains until it is told to stop."""

    coordinator: Coordinator
    training: Training = attrs.field(factory=Training)
    held_s: float = 0.0
    trained_s: float = 0.0

    def run(self, over: threading.Event) -> None:
        """Steps and boundaries; what comes before joining is not counted."""
        with self.coordinator:
            while not (self.coordinator.may_train or over.is_set()):
                self.coordinator.wait(0.1)
                self._meet(0)
            while not over.is_set():
                begun = time.perf_counter()
                time.sleep(STEP_S)
                self.training.now.params["w"].add_(1e-3)
                self.training.cursor += 1
                between = time.perf_counter()
                self._meet(1)
                self.held_s += time.perf_counter() - between
                self.trained_s += between - begun

    def _meet(self, steps: int) -> None:
        self.coordinator.boundary(
            self.training, steps=steps, tokens=steps, cursor=self.training.cursor
        )


def node(
    folder: Path, index: int, hub: HubEmulator, options: argparse.Namespace
) -> Node:
    """The first one leads."""
    for part in ("follower", "leader"):
        (folder / f"{index}" / part).mkdir(parents=True)
    own = folder / f"{index}"
    lane = HubLane(
        REPOSITORY,
        HubOptions(token=Secret(hub.token), endpoint=hub.endpoint, cache=own / "cache"),
    )
    name, life = f"node-{index}", f"{index:016x}"
    follows = start_worker(
        WorkerSettings(
            node=name,
            life=life,
            lineage=LINEAGE,
            inner_steps=options.inner,
            poll_s=10.0,
        ),
        time.monotonic(),
    )
    master = leader = None
    if index == 0:
        leader = Leader(lane, own / "leader", LIKES, {})
        weights, momentum = leader.make(init_outer(model(), RULE.outer))
        master = start_master(
            MasterSettings(
                node=name,
                life=life,
                lineage=LINEAGE,
                limits=Limits(per_round=20),
                outer=to_numbers(RULE),
                bounds=Bounds(payload_bytes=4 * SIZE),
                genesis=Genesis(weights=weights, momentum=momentum),
                quorum=max(1, options.workers // 2),
                grace_s=options.inner * STEP_S / 4,
                ttl_s=600.0,
                keep_rounds=5,
            ),
            time.monotonic(),
        )
    parts = Parts(
        looker=Looker(lane),
        follower=Follower(lane, own / "follower", LIKES),
        leader=leader,
        remember=lambda run: None,
    )
    return Node(Coordinator(parts, follows, master, None))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--latency", default="0.3,3")
    parser.add_argument("--inner", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.update(HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1")
    least, most = map(float, options.latency.split(","))
    over = threading.Event()
    with (
        tempfile.TemporaryDirectory() as name,
        HubEmulator(latency=(least, most)) as hub,
    ):
        hub.create_repo(REPOSITORY, private=True)
        nodes = [node(Path(name), i, hub, options) for i in range(options.workers + 1)]
        threads = [threading.Thread(target=n.run, args=(over,)) for n in nodes]
        begun = time.monotonic()
        for thread in threads:
            thread.start()
        master, told, taken = nodes[0].coordinator, 0, 0
        while told < options.rounds:
            time.sleep(0.5)
            state = master.master.manifest if master.master else None
            if state is not None and state.round > told:
                told, taken = state.round, taken + len(state.accepted)
                minutes = (time.monotonic() - begun) / 60
                print(
                    f"round {told:3d}  {len(state.accepted):2d} deltas  "
                    f"{minutes:5.1f} min",
                    flush=True,
                )
        counts = hub.counts()
        over.set()
        for thread in threads:
            thread.join()
    shares = [n.held_s / max(1e-9, n.held_s + n.trained_s) for n in nodes]
    print(f"{options.workers} workers and a leader, {least} to {most} s per call")
    print(f"rounds {told}  deltas per round {taken / told:.1f}")
    print(f"commits {counts.commits}  conflicts {counts.conflicts}")
    print(f"requests {counts.total}")
    mean = sum(shares) / len(shares)
    print(f"held up: {mean:.2%} on average, {max(shares):.2%} at most")


if __name__ == "__main__":
    main()
