"""Step time, memory, start-up and compile time against other ways to train, in one run.

    python benchmarks/peers.py [--sizes 0.1M 10M] [--rounds 7] [--threads 2]
        [--only ours plain old ...] [--modes eager compiled bf16]
        [--results benchmarks/results/peers.json]

Every way trains the same module on the same rows from the same weights, in a process
of its own: this project; version 2.0 from PyPI, in its own environment; the plain loop
that everybody writes; Lightning Fabric; Accelerate. Their environments are made once,
in ``.venv-peers``. At any moment one of them takes steps and the others wait for their
turn, so that what else the machine does hits all alike; a ratio is the median over the
rounds, with half its spread. Afterwards all must have the same weights.

``--cpu-time`` counts each process's own seconds, for a machine that does other work.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import peer_model
import torch

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "peers.json"
ENVIRONMENTS = HERE.parent / ".venv-peers"
TORCH = f"torch=={torch.__version__.partition('+')[0]}"
PACKAGES = {
    "old": ("speedtronic==2.0.0",),
    "others": ("lightning-fabric==2.6.6", "accelerate==1.15.0"),
}
WAYS = {  # of peer_worker.py: the environment of each, None for this one
    "ours": None,
    "old": "old",
    "plain": "others",
    "fabric": "others",
    "accelerate": "others",
}
MODES = {
    "eager": (),
    "compiled": ("--compiled",),
    "bf16": ("--bf16",),
    "bf16 compiled": ("--bf16", "--compiled"),
}
# The other two compile what the plain loop compiles.
COMPILED = ("ours", "old", "plain")
STEPS = {"0.1M": 40, "0.8M": 15, "10M": 3}
SAME = 1e-3  # of the norm of all weights, relative; bfloat16 is coarser


def environment(name: str | None) -> str:
    """The interpreter of an environment, which is made if it is not there."""
    if name is None:
        return sys.executable
    folder = ENVIRONMENTS / name
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        wanted = (TORCH, *PACKAGES[name])
        install = [str(python), "-m", "pip", "install", "--quiet", *wanted]
        subprocess.run(install, check=True)
        ready.touch()
    return str(python)


class Worker:
    """A process that trains in one way, and waits for its turns."""

    def __init__(self, way: str, mode: str, size: str, threads: int) -> None:
        self.name = f"{way} {mode}"
        python = environment(WAYS[way])
        worker, number = str(HERE / "peer_worker.py"), str(threads)
        self._cache = tempfile.TemporaryDirectory()
        self._errors = tempfile.TemporaryFile()
        # The path of this environment is not for the others.
        kept = {
            name: value
            for name, value in os.environ.items()
            if WAYS[way] is None or name != "PYTHONPATH"
        }
        begun = time.perf_counter()
        self._process = subprocess.Popen(
            [python, worker, way, size, "--threads", number, *MODES[mode]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={
                **kept,
                "OMP_NUM_THREADS": number,
                "TORCHINDUCTOR_CACHE_DIR": self._cache.name,
            },
        )
        self._answer()
        self.first_step = self._ask("1")["seconds"]
        self.start_up = time.perf_counter() - begun

    def seconds(self, steps: int, clock: str) -> float:
        """Mean seconds of so many steps."""
        return float(self._ask(str(steps))[clock])

    def end(self) -> tuple[float, float]:
        """Stop; the peak of its memory in megabytes, and the norm of its weights."""
        told = self._ask("")
        self._process.wait()
        self._cache.cleanup()
        return told["peak_kilobytes"] / 1024, told["norm"]

    def _ask(self, command: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(command, file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            told = self._errors.read().decode()[-2000:]
            raise RuntimeError(f"{self.name} ended: {told}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def compare(
    size: str, names: list[tuple[str, str]], options: argparse.Namespace
) -> Any:
    """One row per way and mode."""
    workers = [Worker(way, mode, size, options.threads) for way, mode in names]
    clock = "cpu_seconds" if options.cpu_time else "seconds"
    count = STEPS[size]
    for worker in workers:
        worker.seconds(3, clock)
    taken: dict[str, list[float]] = {worker.name: [] for worker in workers}
    for number in range(options.rounds):
        shift = number % len(workers)  # nobody is always after the same one
        for worker in workers[shift:] + workers[:shift]:
            taken[worker.name].append(worker.seconds(count, clock))
    shape = peer_model.SIZES[size]
    rows: list[dict[str, Any]] = []
    norms = {}
    for worker, (way, mode) in zip(workers, names, strict=True):
        megabytes, norms[worker.name] = worker.end()
        seconds = statistics.median(taken[worker.name])
        rows.append(
            {
                "size": size,
                "way": way,
                "mode": mode,
                "seconds": seconds,
                "tokens_per_second": shape["rows"] * shape["tokens"] / seconds,
                "peak_megabytes": megabytes,
                "start_up": worker.start_up,
                "first_step": worker.first_step,
                "taken": taken[worker.name],
            }
        )
    check(norms)
    return rows


def check(norms: dict[str, float]) -> None:
    """All ways have trained the same."""
    first = next(iter(norms.values()))
    for name, norm in norms.items():
        tolerance = 10 * SAME if "bf16" in name else SAME
        if not math.isclose(norm, first, rel_tol=tolerance):
            raise RuntimeError(f"the weights are not alike: {norms}")


def ratio(row: dict[str, Any], other: dict[str, Any]) -> tuple[float, float]:
    """Of the times of two rows that took turns: the median, and half the spread."""
    pairs = zip(row["taken"], other["taken"], strict=True)
    ratios = [own / theirs for own, theirs in pairs]
    return statistics.median(ratios), (max(ratios) - min(ratios)) / 2


def bf16_is_native() -> bool:
    """Whether this CPU computes with bfloat16 by itself."""
    flags = Path("/proc/cpuinfo").read_text()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def machine() -> str:
    """What it was measured on."""
    told = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((x for x in told if x.startswith("model name")), platform.machine())
    return f"{model.partition(':')[2].strip()}, {os.cpu_count()} cores"


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["0.1M", "10M"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=list(MODES))
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    modes = [x for x in options.modes if "bf16" not in x or bf16_is_native()]
    left_out = [mode for mode in options.modes if mode not in modes]
    found: dict[str, Any] = {
        "machine": machine(),
        "torch": torch.__version__,
        "threads": options.threads,
        "clock": "CPU time" if options.cpu_time else "wall time",
        "load_before": os.getloadavg()[0],
        "left_out": left_out,
        "rows": [],
    }
    for size in options.sizes:
        names = [
            (way, mode)
            for mode in modes
            for way in options.only
            if way in COMPILED or "compiled" not in mode
        ]
        found["rows"] += compare(size, names, options)
        show([row for row in found["rows"] if row["size"] == size])
        found["load_after"] = os.getloadavg()[0]
        options.results.parent.mkdir(parents=True, exist_ok=True)
        options.results.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    for mode in left_out:
        print(f"not run: {mode}, this CPU has no bfloat16")


def show(rows: list[dict[str, Any]]) -> None:
    """A table of one size, by ratios to the first row's way in the same mode."""
    print("size   way        mode       ms/step  of 2.0's      peak MB start-up s")
    for row in rows:
        theirs = [x for x in rows if (x["way"], x["mode"]) == ("old", row["mode"])]
        middle, spread = ratio(row, theirs[0]) if theirs else (math.nan, math.nan)
        print(
            f"{row['size']:5s}  {row['way']:10s} {row['mode']:9s}"
            f" {1e3 * row['seconds']:8.2f}  {middle:.3f} +-{spread:.3f}"
            f" {row['peak_megabytes']:8.0f} {row['start_up']:6.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
