"""Muon's iterations in bfloat16 against float32: time, and how far results are apart.

    python benchmarks/muon_dtype.py [--device cuda] [--rounds 5]

Ratios below 1 are for bfloat16. Seconds are those of the processor, so that what else a
CPU does matters less; on CUDA they are those of the wall.
"""

import argparse
import time

import torch

from speedtronic.pure.optim.muon import (
    POLAR_EXPRESS_MARGIN,
    iteration_coefficients,
    orthogonalize,
)

SHAPES = [(16, 128, 128), (4, 128, 344), (16, 384, 384)]
MARGINS = {"keller": 1.0, "polar_express": POLAR_EXPRESS_MARGIN}


def best_of(
    rounds: int, matrices: torch.Tensor, coefficients: str, dtype: torch.dtype
) -> tuple[float, torch.Tensor]:
    """The least seconds of several rounds, and the result."""
    cuda = matrices.device.type == "cuda"
    clock = time.perf_counter if cuda else time.process_time
    triples, margin = iteration_coefficients(coefficients, 5), MARGINS[coefficients]
    found, result = [], matrices
    for _ in range(rounds):
        begin = clock()
        result = orthogonalize(matrices, triples, 1e-7, margin, dtype)
        if cuda:
            torch.cuda.synchronize()
        found.append(clock() - begin)
    return min(found), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("matrices        coefficients   time ratio  apart, of the norm")
    for shape in SHAPES:
        draw = torch.Generator().manual_seed(0)
        matrices = torch.randn(shape, generator=draw).to(options.device)
        for name in MARGINS:
            slow, exact = best_of(options.rounds, matrices, name, torch.float32)
            fast, near = best_of(options.rounds, matrices, name, torch.bfloat16)
            apart = float((exact - near).norm() / exact.norm())
            size = " x ".join(map(str, shape))
            print(f"{size:15} {name:13} {fast / slow:10.2f}  {apart:.4f}")


if __name__ == "__main__":
    main()
