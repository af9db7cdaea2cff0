"""Write sums of what aggregation and the outer step give: ``fingerprint.py THREADS``.

The inputs come from integer arithmetic, so that they are the same on every CPU.
"""

import hashlib
import json
import sys

import torch
from torch import Tensor

from speedtronic.pure.aggregate import aggregate, mean, token_mean
from speedtronic.pure.delta import Delta, Weights, norm
from speedtronic.pure.origin import Origin
from speedtronic.pure.outer import OuterRule, init_outer, outer_step
from speedtronic.pure.robust import (
    centered_clip,
    geometric_median,
    median,
    multi_krum,
    norm_clip,
    trimmed_mean,
)

NODES = 5
RULES = {
    "nesterov": (OuterRule(), token_mean(discount=True)),
    "heavy ball": (OuterRule(nesterov=False), mean()),
    "plain": (OuterRule(momentum=0.0), token_mean()),
    "norm clip": (OuterRule(), norm_clip()),
    "median": (OuterRule(), median()),
    "weighted median": (OuterRule(), median(discount=True)),
    "trimmed mean": (OuterRule(), trimmed_mean()),
    "weighted trimmed mean": (OuterRule(), trimmed_mean(discount=True)),
    "geometric median": (OuterRule(), geometric_median(discount=True)),
    "centered clip": (OuterRule(), centered_clip()),
    "multi-Krum": (OuterRule(), multi_krum()),
}


def numbers(seed: int, size: int) -> Tensor:
    """f32[size] in -1..1, of unlike magnitudes."""
    counter = torch.arange(size, dtype=torch.int64) + seed * 1_000_003
    mixed = (counter * 2654435761 % 4294967291) * 40503 % 4294967291
    unit = mixed.double() / 2147483648.0 - 1.0
    return (unit * unit * unit).float()


def model(seed: int) -> dict[str, Tensor]:
    """One tensor above a million elements, ends of vectors and rows, complex, zeros."""
    pairs = numbers(seed + 3, 2 * 70_001).reshape(-1, 2)
    sign = -1.0 if seed % 20 else 1.0  # a minimum of both zeros may be either
    return {
        "zeros": torch.zeros(1001) * sign,
        "large": numbers(seed, 1_000_003),
        "small": numbers(seed + 1, 37),
        "rows": numbers(seed + 2, 32_768 * 2 + 1),
        "complex": torch.view_as_complex(pairs),
    }


def sum_of(tensors: dict[str, Tensor]) -> str:
    """One sha256 over all bits."""
    total = hashlib.sha256()
    for name, x in sorted(tensors.items()):
        total.update(name.encode())
        total.update(x.numpy().tobytes())
    return total.hexdigest()


def main(threads: int) -> None:
    """Two rounds by each rule."""
    torch.set_num_threads(threads)
    start = Weights(params=model(0), buffers={"b": numbers(4, 50)})
    deltas = {
        Origin(
            f"n{n}", "s", 1, tokens=1000 + 7 * n, staleness=n % 3, steps=50 + n % 4
        ): Delta(params=model(10 * n + 10), buffers={"b": numbers(n, 50)})
        for n in range(NODES)
    }
    told = {}
    for label, (outer, rule) in RULES.items():
        state = init_outer(start, outer)
        for _ in range(2):
            found = aggregate(deltas, rule)
            assert found is not None
            state, _ = outer_step(state, found, outer)
        weights, momentum = state.weights, state.momentum
        told[label] = {
            "norm": norm(found).item().hex(),
            "params": sum_of(weights.params),
            "buffers": sum_of(weights.buffers),
            "momentum": sum_of(momentum),
        }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(int(sys.argv[1]))
