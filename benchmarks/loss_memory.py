"""Peak memory of the plain and the chunked loss, forward and backward.

A vocabulary of 50 000 with 512 tokens, where the logits dwarf everything else. Each
way runs in a process of its own; the number is how far its peak resident memory rises
above what it had before the loss.

    python benchmarks/loss_memory.py [--chunk 64]
"""

import argparse
import resource
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

from speedtronic.pure.loss import chunked_cross_entropy_sum, cross_entropy_sum

VOCAB, WIDTH, TOKENS = 50_000, 8, 512


def peak_mb() -> float:
    """Peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(chunk: int) -> None:
    """Run one loss and its gradients and print what it took; 0 is the plain form."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(TOKENS, WIDTH, generator=generator).requires_grad_()
    head = torch.randn(VOCAB, WIDTH, generator=generator).requires_grad_()
    labels = torch.randint(VOCAB, (TOKENS,), generator=generator)

    def step(rows: int) -> float:
        if chunk:
            loss = chunked_cross_entropy_sum(hidden[:rows], head, labels[:rows], chunk)
        else:
            loss = cross_entropy_sum(F.linear(hidden[:rows], head), labels[:rows])
        torch.autograd.grad(loss[0], (hidden, head))
        return float(loss[0].detach())

    step(1)  # load kernels
    before, start = peak_mb(), time.perf_counter()
    value = step(TOKENS)
    seconds = time.perf_counter() - start
    print(f"{peak_mb() - before:6.0f} MB  {seconds:5.2f} s  loss {value / TOKENS:.6f}")


def main() -> None:
    """Compare the two ways."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--chunk", type=int, default=64)
    parser.add_argument("--measure", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure)
        return
    for name, chunk in (("plain", 0), (f"chunks of {options.chunk}", options.chunk)):
        print(f"{name:14}", end=" ", flush=True)
        command = [sys.executable, __file__, "--measure", str(chunk)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
