"""The most operations per second that a device was seen to do: a measured peak.

It is that of one square matrix product, the fastest thing that training does, as large
as it must be to take ten milliseconds. A number from a data sheet is higher and says
less about this machine, its threads and what else runs on it.
"""

import time
from collections.abc import Callable

import torch

_LONG_ENOUGH_S = 0.01
_SIZES = (256, 512, 1024, 2048, 4096, 8192)
_REPEATS = 5


def measured_peak(
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    *,
    enough_s: float = _LONG_ENOUGH_S,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Floating-point operations per second of the fastest product.

    Args:
        device: which computes.
        dtype: of the matrices.
        enough_s: seconds; no product larger than one that takes as long is tried.
        clock: seconds from any origin.

    >>> measured_peak(torch.device("cpu")) > 0
    True
    """
    best = 0.0
    for size in _SIZES:
        matrix = torch.full((size, size), 0.5, device=device, dtype=dtype)
        _seconds(matrix, clock)  # the first of a size also loads and chooses kernels
        seconds = [_seconds(matrix, clock) for _ in range(_REPEATS)]
        best = max(best, 2 * size**3 / min(seconds))
        if min(seconds) > enough_s:
            break
    return best


def _seconds(matrix: torch.Tensor, clock: Callable[[], float]) -> float:
    _finish(matrix.device)
    begin = clock()
    torch.mm(matrix, matrix)
    _finish(matrix.device)
    return clock() - begin


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
