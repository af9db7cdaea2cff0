"""What share of the machine's matrix products a step reaches, and where the rest goes.

The peak is measured before every round of steps, so that what else the machine does
hits both alike; the share is the median over the rounds. Then one profile of each way,
by kind of operation: the seconds of all operations of a kind, their own time only.

On a machine that does other work, ``--threads 1 --cpu-time`` counts this process alone.

    python benchmarks/peak.py [--rounds 7] [--size 10M] [--threads 2] [--cpu-time]
"""

import argparse
import statistics
import time
from collections import Counter

import step_time
import torch
from torch.profiler import ProfilerActivity, profile

from speedtronic.pure.config import Model
from speedtronic.pure.flops import transformer_flops_per_token, utilization
from speedtronic.shell.peak import measured_peak

KINDS = {  # the first that is part of an operation's name
    "attention": ("scaled_dot_product", "flash_attention"),
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::matmul"),
    "optimizer": ("fused_adam",),
    "loss": ("log_softmax", "nll_loss", "cross_entropy"),
    "norms": ("rms_norm", "linalg_vector_norm"),
    "embedding": ("embedding",),
    "compiled kernels": ("graph_", "cpp_fused", "Torch-Compiled", "CompiledFx"),
    "copies": ("copy_", "clone", "contiguous", "empty", "zeros", "fill_"),
}


def flops_per_step(size: str) -> int:
    """Of the model, and the tokens of its batch."""
    shape, (rows, tokens) = step_time.SIZES[size]
    model = Model(vocab_size=256, **shape)  # type: ignore[arg-type]
    return rows * tokens * transformer_flops_per_token(model, tokens)


def share(way: str, size: str, rounds: int) -> tuple[float, float, float]:
    """Median share of the peak, half its spread, and the median seconds of a step."""
    step = step_time.make(way, size)
    step_time.seconds(step, 3)
    shares, taken = [], []
    for _ in range(rounds):
        peak = measured_peak(torch.device("cpu"), clock=step_time.CLOCK)
        taken.append(step_time.seconds(step, step_time.STEPS[size]))
        shares.append(utilization(1 / taken[-1], flops_per_step(size), peak))
    spread = (max(shares) - min(shares)) / 2
    return statistics.median(shares), spread, statistics.median(taken)


def where(way: str, size: str, steps: int) -> dict[str, float]:
    """Milliseconds per step of each kind of operation, largest first."""
    step = step_time.make(way, size)
    step_time.seconds(step, 3)
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        step_time.seconds(step, steps)
    spent: Counter[str] = Counter()
    for event in profiled.key_averages():
        spent[kind(event.key)] += event.self_cpu_time_total / 1e3 / steps
    return dict(spent.most_common())


def kind(operation: str) -> str:
    """What an operation is for."""
    for name, parts in KINDS.items():
        if any(part in operation for part in parts):
            return name
    return "elementwise" if operation.startswith("aten::") else "everything else"


def main() -> None:
    """Print the shares, then the profiles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", default="10M", choices=list(step_time.SIZES))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--cpu-time", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.cpu_time:
        step_time.CLOCK = time.process_time
    peak = measured_peak(torch.device("cpu"), clock=step_time.CLOCK)
    print(f"torch {torch.__version__}, {options.threads} threads", end=", ")
    print(f"peak {peak / 1e9:.1f} GFLOP/s", end=", ")
    print(f"{flops_per_step(options.size) / 1e9:.1f} GFLOP per step")
    for way in step_time.WAYS:
        middle, spread, seconds = share(way, options.size, options.rounds)
        print(f"{way:9s} {1e3 * seconds:8.1f} ms", end="  ")
        print(f"{middle:.3f} +-{spread:.3f} of the peak")
    for way in step_time.WAYS[1:]:
        spent = where(way, options.size, steps=3)
        total = sum(spent.values())
        print(f"\n{way}: {total:.1f} ms of operations per step")
        for name, milliseconds in spent.items():
            print(f"  {name:16s} {milliseconds:8.1f} ms {milliseconds / total:6.1%}")


if __name__ == "__main__":
    main()
