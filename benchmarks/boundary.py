"""What meeting other nodes costs the training thread, over a lane that is slow.

    python benchmarks/boundary.py [--boundaries 20] [--latency 2.0] [--millions 10]

Trains a transformer of about that many parameters by the real `train`, as the only node
of a run: it hands over a copy of model and optimizer at each boundary, cuts a delta,
saves a checkpoint, sends it, leads, takes the outer step, publishes, and adopts the new
global. Every call of the lane takes ``--latency`` seconds. Rounds are as long as such a
lane allows. Prints the share of the time that training was held up by all this, as the
run's own metrics have it, and beside it the time that a node which waits would lose.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from speedtronic.pure.config import Config
from speedtronic.shell.config import config_from_dict
from speedtronic.shell.distributed import node
from speedtronic.shell.lanes.memory import MemoryLane
from speedtronic.shell.train import train

CALLS = 8  # of the lane, one after the other, from a boundary to the next adoption


def slow_lane(latency_s: float) -> MemoryLane:
    """A lane in memory of which every call takes so long."""
    lane = MemoryLane()

    def slowly(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **more: Any) -> Any:
            time.sleep(latency_s)
            return call(*arguments, **more)

        return called

    for name in ("head", "names", "read", "fetch", "commit"):
        setattr(lane, name, slowly(getattr(lane, name)))
    return lane


def config_of(folder: Path, millions: int, inner_steps: int, steps: int) -> Config:
    """A node that leads; alone if ``inner_steps`` is 0."""
    width = {1: 128, 10: 384}[millions]
    section = {
        "enabled": True,
        "role": "master",
        "node_id": "node-0",
        "lane": "memory:",
        "inner_steps": max(1, inner_steps),
        "grace": 0.0,
        "poll_interval": 0.2,
    }
    return config_from_dict(
        {
            "run": {"name": "r", "output_dir": str(folder), "max_steps": steps},
            "model": {
                "vocab_size": 256,
                "max_seq_len": 64,
                "n_layer": 6,
                "n_head": 6 if width == 384 else 4,
                "d_model": width,
            },
            "data": {
                "num_tokens": 100_000,
                "block_size": 64,
                "vocab_size": 256,
                "micro_batch_size": 4,
                "target_batch_size": 4,
                "validation_fraction": 0.0,
            },
            "checkpoint": {"every_steps": None},
            "logging": {"every_steps": 1, "level": "WARNING", "progress": False},
            "distributed": section if inner_steps else {},
        }
    )


def records(folder: Path) -> list[dict[str, Any]]:
    """What the run wrote."""
    lines = (folder / "r" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def main() -> None:
    """Print the share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boundaries", type=int, default=20)
    parser.add_argument("--latency", type=float, default=2.0)
    parser.add_argument("--millions", type=int, choices=(1, 10), default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        train(config_of(Path(name), options.millions, 0, 12))
        steps = [r for r in records(Path(name)) if r["event"] == "train_step"][2:]
        step_s = sum(r["compute_seconds"] for r in steps) / len(steps)
    inner_steps = round(CALLS * options.latency / step_s) + 1
    setattr(node, "open_lane", lambda config, stop, member: slow_lane(options.latency))  # noqa: B010
    with tempfile.TemporaryDirectory() as name:
        total = options.boundaries * inner_steps
        train(config_of(Path(name), options.millions, inner_steps, total))
        found = records(Path(name))
    steps = [r for r in found if r["event"] == "train_step"]
    # The first one includes joining the run, which training has to wait for.
    held_s = sum(r["round_seconds"] for r in steps[1:])
    all_s = steps[-1]["wall_seconds"] - steps[0]["wall_seconds"]
    adopted = sum(r["event"] == "outer_step" for r in found) - 1
    told = CALLS * options.latency / (inner_steps * step_s + CALLS * options.latency)
    print(f"{options.millions} M parameters, {step_s * 1000:.0f} ms per step, alone")
    print(f"{len(steps)} steps, {inner_steps} per round, {adopted} rounds adopted")
    print(f"held up {held_s:.2f} s of {all_s:.1f} s: {held_s / all_s:.2%}")
    print(f"a node that waits for each of {CALLS} calls would lose {told:.0%}")


if __name__ == "__main__":
    main()
