"""Robust rules over deltas in files: time beside the mean, memory beside one delta.

    python benchmarks/robust.py [--nodes 8] [--millions 10] [--repeat 5] [--cpu-time]

Writes that many deltas to a temporary folder and takes the outer step over them
(`outer_step_from_files`), for each rule in a fresh process that takes turns between the
mean and the rule, so that what else the machine does hits both alike. Prints the best
time of each, their ratio, and the peak of resident memory above model and momentum, in
sizes of one delta. The bounds are those of docs/decisions/0032; it fails beyond them.

On a machine that does other work, ``--cpu-time`` counts this process alone.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from aggregate import RULE, files_in, resident, shapes, write_deltas

from speedtronic.pure.aggregate import Aggregator, mean, token_mean
from speedtronic.pure.delta import Weights
from speedtronic.pure.outer import init_outer
from speedtronic.pure.robust import (
    centered_clip,
    geometric_median,
    median,
    multi_krum,
    norm_clip,
    trimmed_mean,
)
from speedtronic.shell.aggregate_files import outer_step_from_files

RULES: dict[str, tuple[Aggregator, float]] = {  # and most times the mean
    "mean": (mean(), 1.5),
    "token_mean": (token_mean(), 1.5),
    "norm_clip": (norm_clip(), 4.0),
    "median": (median(), 4.0),
    "trimmed_mean": (trimmed_mean(), 5.0),
    "geometric_median": (geometric_median(), 10.0),
    "centered_clip": (centered_clip(), 10.0),
    "multi_krum": (multi_krum(2), 10.0),
}
MOST_DELTAS = 1.0  # of memory, for eight deltas of 10 M parameters


def measure(name: str, folder: Path, millions: int, repeat: int, cpu: bool) -> None:
    """In a process of its own: print seconds of both and the peak as JSON."""
    clock = time.process_time if cpu else time.perf_counter
    params = {name: torch.ones(shape) for name, shape in shapes(millions).items()}
    state = init_outer(Weights(params=params, buffers={}), RULE)
    for trace in state.momentum.values():
        trace.fill_(0.0)  # so that its pages are there before the peak is taken
    files = files_in(folder)
    rules = [mean(), RULES[name][0]]
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = resident("VmRSS")
    seconds: list[list[float]] = [[], []]
    for _ in range(repeat):
        for rule, taken in zip(rules, seconds, strict=True):
            start = clock()
            outer_step_from_files(state, files, rule, RULE)
            taken.append(clock() - start)
    peak = resident("VmHWM") - before
    print(json.dumps({"seconds": [min(taken) for taken in seconds], "peak": peak}))


def main() -> None:
    """Measure every rule and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--millions", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--rule", choices=sorted(RULES), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    size = flags.millions, flags.repeat, flags.cpu_time
    if flags.rule:
        return measure(flags.rule, flags.folder, *size)
    beyond = []
    with tempfile.TemporaryDirectory() as folder:
        one = write_deltas(Path(folder), flags.nodes, flags.millions) / flags.nodes
        print(f"{flags.nodes} deltas of {flags.millions} M parameters")
        for name, (_, most) in RULES.items():
            command = [sys.executable, __file__, "--rule", name, "--folder", folder]
            command += ["--millions", str(flags.millions)]
            command += ["--repeat", str(flags.repeat)]
            command += ["--cpu-time"] if flags.cpu_time else []
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            told = json.loads(done.stdout)
            plain, taken = told["seconds"]
            ratio, peak = taken / plain, told["peak"] / one
            print(
                f"{name:18} {taken:6.3f} s  mean {plain:6.3f} s  {ratio:5.2f} x "
                f"(at most {most:g})  peak {told['peak'] / 1e6:4.0f} MB "
                f"({peak:.2f} deltas)",
                flush=True,
            )
            if ratio > most or peak > MOST_DELTAS:
                beyond.append(name)
    if beyond:
        raise SystemExit(f"beyond the bounds: {', '.join(beyond)}")


if __name__ == "__main__":
    main()
