"""Aggregate deltas from files: speed and memory beside the obvious way.

    python benchmarks/aggregate.py [--nodes 8] [--millions 50] [--repeat 3]

Writes that many deltas to a temporary folder (200 MB each for 50 M parameters), then
takes the outer step over them in a fresh process for each way:

- ``rows``: `outer_step_from_files`, row by row over all files;
- ``stack``: load every file, stack, average, take the outer step.

Prints the best time of ``--repeat`` runs, the rate at which deltas were read, and the
peak of resident memory above model and momentum, file pages included. The files are in
the page cache, as they are after they were fetched and hashed. The plain copy is of the
same files to other files, through a buffer of 1 MiB.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from speedtronic.pure.aggregate import mean
from speedtronic.pure.delta import Weights
from speedtronic.pure.origin import Origin
from speedtronic.pure.outer import OuterRule, OuterState, init_outer
from speedtronic.shell.aggregate_files import outer_step_from_files

WIDTH = 1600
RULE = OuterRule(learning_rate=0.7, momentum=0.9)
Files = dict[Origin, Path]


def shapes(millions: int) -> dict[str, tuple[int, int]]:
    """Square matrices for about 80 % of the parameters, one embedding for the rest."""
    total = millions * 1_000_000
    count = total * 8 // 10 // WIDTH**2
    rest = total - count * WIDTH**2
    layers = {f"layer{n:02}.weight": (WIDTH, WIDTH) for n in range(count)}
    return layers | {"embedding.weight": (rest // WIDTH, WIDTH)}


def files_in(folder: Path) -> Files:
    """The deltas by origin."""
    paths = sorted(folder.glob("*.safetensors"))
    return {Origin(path.stem, "stream", 1): path for path in paths}


def write_deltas(folder: Path, nodes: int, millions: int) -> int:
    """Write random deltas; return their bytes."""
    for node in range(nodes):
        generator = torch.Generator().manual_seed(node)
        tensors = {
            f"params.{name}": torch.randn(shape, generator=generator) * 1e-3
            for name, shape in shapes(millions).items()
        }
        save_file(tensors, folder / f"node{node}.safetensors")
    return sum(path.stat().st_size for path in folder.iterdir())


def by_rows(state: OuterState, files: Files) -> None:
    """The way of this package; the state is written over."""
    outer_step_from_files(state, files, mean(), RULE)


def by_stack(state: OuterState, files: Files) -> None:
    """The obvious way."""
    loaded = [load_file(path) for path in files.values()]
    stacked = {name: torch.stack([x[name] for x in loaded]) for name in loaded[0]}
    deltas = {name: x.mean(0) for name, x in stacked.items()}
    for name, value in state.weights.params.items():
        delta: Tensor = deltas[f"params.{name}"]
        trace = state.momentum[name]
        trace.mul_(RULE.momentum).add_(delta)
        value.sub_((delta + trace * RULE.momentum) * RULE.learning_rate)


WAYS: dict[str, Callable[[OuterState, Files], None]] = {
    "rows": by_rows,
    "stack": by_stack,
}


def resident(field: str) -> int:
    """Bytes of resident memory now (VmRSS) or at the peak (VmHWM)."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def measure(way: str, folder: Path, millions: int, repeat: int) -> None:
    """In a process of its own: print seconds, peak and a check sum as JSON."""
    params = {name: torch.ones(shape) for name, shape in shapes(millions).items()}
    state = init_outer(Weights(params=params, buffers={}), RULE)
    for trace in state.momentum.values():
        trace.fill_(0.0)  # so that its pages are there before the clock starts
    files = files_in(folder)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = resident("VmRSS")
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        WAYS[way](state, files)
        seconds.append(time.perf_counter() - start)
    told = {
        "seconds": min(seconds),
        "peak": resident("VmHWM") - before,
        "sum": float(sum(x.double().sum() for x in params.values())),
    }
    print(json.dumps(told))


def copy_seconds(folder: Path, target: Path) -> float:
    """The time to copy all files."""
    buffer = bytearray(1 << 20)
    view = memoryview(buffer)
    start = time.perf_counter()
    for path in sorted(folder.iterdir()):
        with path.open("rb", buffering=0) as source, target.open("wb") as copy:
            while count := source.readinto(buffer):
                copy.write(view[:count])
    return time.perf_counter() - start


def main() -> None:
    """Measure both ways and the plain copy, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--millions", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--way", choices=sorted(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.way:
        return measure(flags.way, flags.folder, flags.millions, flags.repeat)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "deltas"
        folder.mkdir()
        total = write_deltas(folder, flags.nodes, flags.millions)
        one = total / flags.nodes
        found = {}
        for way in WAYS:
            command = [sys.executable, __file__, "--way", way, "--folder", str(folder)]
            command += ["--millions", str(flags.millions)]
            command += ["--repeat", str(flags.repeat)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            found[way] = json.loads(done.stdout)
        target = Path(name) / "copy"
        copied = min(copy_seconds(folder, target) for _ in range(flags.repeat))
    print(
        f"{flags.nodes} deltas of {flags.millions} M parameters, {total / 1e9:.2f} GB"
    )
    for way, told in found.items():
        rate = total / told["seconds"] / 1e9
        peak = f"{told['peak'] / 1e6:5.0f} MB ({told['peak'] / one:.2f} deltas)"
        print(f"{way:6} {told['seconds']:6.2f} s  {rate:5.2f} GB/s  peak {peak}")
    print(f"copy   {copied:6.2f} s  {total / copied / 1e9:5.2f} GB/s")
    ratio = found["stack"]["seconds"] / found["rows"]["seconds"]
    print(f"rows is {ratio:.1f} times faster than stack")
    expected, seen = found["stack"]["sum"], found["rows"]["sum"]
    assert abs(expected - seen) < 1e-6 * abs(expected), "the two ways differ"


if __name__ == "__main__":
    main()
