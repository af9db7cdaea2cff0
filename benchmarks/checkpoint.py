"""Checkpoints against `torch.save` and `torch.load`: seconds for one training state.

The state is weights and two moments of a model, float32. Both sides write the same
tensors to the same disk in turn. Ours hashes every byte, syncs files and folders to the
disk and, on loading, compares every byte with its sum; torch does none of it. Loads are
timed in fresh processes, as a resume is: a process that has just freed as much memory
loads faster, by an amount that depends on the order of things. `wait` is what the
training thread pays for a save behind it, against a plain copy of the state.

Run it with nothing beside it::

    python benchmarks/checkpoint.py --parameters 100e6 --rounds 7
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from speedtronic.pure.tree import state, tree_map
from speedtronic.shell.checkpoint import Snapshot, load, save
from speedtronic.shell.checkpoint_manifest import folder_name
from speedtronic.shell.checkpoint_writer import CheckpointWriter

PAIRS = (("save", "torch.save"), ("load", "torch.load"), ("wait", "copy"))


@state
class Training:
    """Weights, two moments and a counter."""

    params: dict[str, Tensor]
    optimizer: tuple[dict[str, Tensor], dict[str, Tensor]]
    step: Tensor


def make(parameters: int, tensors: int, device: str = "cpu") -> Training:
    """A state of that many parameters in that many tensors."""
    shape = (parameters // tensors,)
    names = [f"layer.{index}.weight" for index in range(tensors)]
    params, first, second = (
        {name: torch.randn(shape, device=device) for name in names} for _ in range(3)
    )
    return Training(params=params, optimizer=(first, second), step=torch.tensor(1))


def plain(tree: Training) -> dict[str, Any]:
    """What `torch.load` reads back without executing anything."""
    first, second = tree.optimizer
    return {"params": tree.params, "first": first, "second": second, "step": tree.step}


def seconds(action: Callable[[], Any]) -> float:
    """How long one call takes, its result included."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def time_load(path: Path, parameters: int, tensors: int) -> float:
    """One load by whichever of the two wrote ``path``."""
    if path.suffix == ".pt":
        return seconds(lambda: torch.load(path, weights_only=True))
    like = make(parameters, tensors, device="meta")
    return seconds(lambda: load(path, like))


def in_new_process(path: Path, options: argparse.Namespace) -> float:
    """`time_load` in a process that has not used any memory yet."""
    sizes = [f"--parameters={options.parameters}", f"--tensors={options.tensors}"]
    command = [sys.executable, __file__, f"--load={path}", *sizes]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout)


def one_round(
    tree: Training, folder: Path, options: argparse.Namespace
) -> dict[str, float]:
    """Each action once, each pair side by side."""
    snapshot = Snapshot(run_id="benchmark", step=1, state=tree)
    theirs, ours = folder / "state.pt", folder / folder_name(1)
    # Each begins when the other's file has just been deleted: memory that the disk's
    # cache has used before is written to faster.
    times = {"torch.save": seconds(lambda: torch.save(plain(tree), theirs))}
    times["torch.load"] = in_new_process(theirs, options)
    theirs.unlink()
    times["save"] = seconds(lambda: save(folder, snapshot))
    times["load"] = in_new_process(ours, options)
    shutil.rmtree(ours)
    times["copy"] = seconds(lambda: tree_map(torch.clone, tree))
    with CheckpointWriter(folder / "behind") as writer:
        times["wait"] = seconds(lambda: writer.save(snapshot))
    shutil.rmtree(folder / "behind")
    return times


def main() -> None:
    """Measure and print one line per pair, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", type=float, default=100e6)
    parser.add_argument("--tensors", type=int, default=100, help="per kind")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", help="where to write (default: the system's)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--load", type=Path, help="only time one load of this path")
    options = parser.parse_args()
    parameters = int(options.parameters)
    if options.load:
        print(time_load(options.load, parameters, options.tensors))
        return

    tree = make(parameters, options.tensors)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        one_round(tree, Path(folder), options)  # the disk's cache has its size now
        rounds = [one_round(tree, Path(folder), options) for _ in range(options.rounds)]
    medians = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    if options.json:
        print(json.dumps({"median_s": medians, "rounds": rounds}))
        return
    for ours, theirs in PAIRS:
        ratio = statistics.median(r[ours] / r[theirs] for r in rounds)
        print(
            f"{ours:5} {medians[ours]:6.2f} s   {theirs:10} {medians[theirs]:6.2f} s"
            f"   {ratio:5.2f} times"
        )


if __name__ == "__main__":
    main()
