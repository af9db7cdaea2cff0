"""Seconds per step and peak memory: pure eager, compiled, and the usual loop.

The usual loop is the same module with ``loss.backward()`` and fused
``torch.optim.AdamW``. All three run in this process, taking turns, so that what else
the machine does hits them alike; the number is the median of the ratios.

    python benchmarks/step_time.py [--rounds 7] [--sizes 0.1M 0.8M 10M] [--memory]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from speedtronic.pure.gradient import gradient
from speedtronic.pure.inner import StepRule, init_inner
from speedtronic.pure.loss import cross_entropy_sum
from speedtronic.pure.module import ModuleLoss, split
from speedtronic.pure.optim import adamw
from speedtronic.pure.random import key_from_seed
from speedtronic.pure.transformer import Transformer
from speedtronic.shell.compile import StepRunner

SIZES = {
    "0.1M": (dict(n_layer=2, n_head=2, d_model=64, max_seq_len=64), (4, 64)),
    "0.8M": (dict(n_layer=4, n_head=4, d_model=128, max_seq_len=64), (12, 64)),
    "10M": (dict(n_layer=6, n_head=6, d_model=384, max_seq_len=128), (8, 128)),
}
STEPS = {"0.1M": 40, "0.8M": 15, "10M": 4}
CLOCK = time.perf_counter
WAYS = ("mutable", "eager", "compiled")


def build(size: str) -> tuple[Transformer, dict[str, Tensor]]:
    """The model of a size, and one batch for it."""
    shape, (rows, tokens) = SIZES[size]
    model = Transformer(vocab_size=256, **shape)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(256, (rows, tokens + 1), generator=generator)
    return model, {"input_ids": ids[:, :-1].contiguous(), "labels": ids[:, 1:].clone()}


def mutable(size: str) -> Callable[[], None]:
    """The ordinary loop."""
    model, batch = build(size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        logits = model(batch["input_ids"])["logits"]
        loss_sum, count = cross_entropy_sum(logits, batch["labels"])
        optimizer.zero_grad()
        torch.autograd.backward(loss_sum / count)
        optimizer.step()

    return step


def pure(size: str, compiled: bool) -> Callable[[], None]:
    """The pure step over a donated state."""
    model, batch = build(size)
    params, frozen, buffers = split(model)
    optimizer = adamw(1e-3)
    loss = ModuleLoss(model, train=True, keyed_functions=False)
    runner = StepRunner(
        gradient(loss),
        optimizer,
        StepRule(),
        compiled="inductor" if compiled else None,
    )
    state = init_inner(
        optimizer, params, key_from_seed(0), frozen=frozen, buffers=buffers
    )
    del model

    def step() -> None:
        nonlocal state
        state, _ = runner(state, [batch])

    return step


def make(way: str, size: str) -> Callable[[], None]:
    """A step function by name."""
    return mutable(size) if way == "mutable" else pure(size, way == "compiled")


def seconds(step: Callable[[], None], count: int) -> float:
    """Mean seconds of ``count`` calls."""
    begin = CLOCK()
    for _ in range(count):
        step()
    return (CLOCK() - begin) / count


def compare(size: str, rounds: int) -> dict[str, float]:
    """Median seconds of each way and median ratios to the usual loop."""
    steps = {way: make(way, size) for way in WAYS}
    for step in steps.values():
        seconds(step, 3)
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, step in steps.items():
            taken[way].append(seconds(step, STEPS[size]))
    result = {way: statistics.median(values) for way, values in taken.items()}
    for way in WAYS[1:]:
        ratios = [a / b for a, b in zip(taken[way], taken["mutable"], strict=True)]
        result[f"{way}/mutable"] = statistics.median(ratios)
        result[f"{way} spread"] = max(ratios) - min(ratios)
    return result


def peak_megabytes(way: str, size: str) -> float:
    """Growth of the peak resident set over three steps, in a fresh process."""
    code = f"from step_time import grow; grow({way!r}, {size!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=__file__.rpartition("/")[0] or ".",
    )
    return float(json.loads(done.stdout.splitlines()[-1]))


def grow(way: str, size: str) -> None:
    """Print the megabytes that building and three steps add to the peak."""
    before = peak_kilobytes()
    step = make(way, size)
    for _ in range(3):
        step()
    print(json.dumps((peak_kilobytes() - before) / 1024))


def peak_kilobytes() -> int:
    """This process's own peak; that of getrusage begins with its parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(x for x in lines if x.startswith("VmHWM")).split()[1])


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print("size   mutable ms  eager ms  compiled ms  eager/mutable  compiled/mutable")
    for size in options.sizes:
        r = compare(size, options.rounds)
        print(
            f"{size:5s}  {1e3 * r['mutable']:9.2f} {1e3 * r['eager']:9.2f}"
            f" {1e3 * r['compiled']:11.2f}"
            f"  {r['eager/mutable']:8.3f} +-{r['eager spread'] / 2:.3f}"
            f"  {r['compiled/mutable']:9.3f} +-{r['compiled spread'] / 2:.3f}"
        )
    if options.memory:
        print("size   peak MB: mutable  eager  eager/mutable")
        for size in options.sizes:
            usual, ours = peak_megabytes("mutable", size), peak_megabytes("eager", size)
            print(f"{size:5s}  {usual:16.0f} {ours:6.0f} {ours / usual:12.3f}")


if __name__ == "__main__":
    main()
