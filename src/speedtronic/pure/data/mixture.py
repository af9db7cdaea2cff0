"""Mixtures: which source a row comes from, as a function of its position.

Sources are interleaved as evenly as integers allow (Bresenham's line, once per
source): among the first n rows each source has its share of n to within one row per
source, from any n on. Nothing is drawn at random and nothing is remembered.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

_UNITS = 2**20  # weights are rounded to millionths of the whole


def shares(weights: Sequence[float]) -> list[int]:
    """Weights as whole numbers of about one millionth, each at least 1.

    >>> shares([1.0, 3.0])
    [262144, 786432]
    """
    total = sum(weights)
    return [max(1, round(weight / total * _UNITS)) for weight in weights]


def deal(position: Tensor, parts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The source of each row and the number of that source's rows before it.

    Args:
        position: i64[...], rows counted from 0, below 2**42.
        parts: the shares of the sources, as whole numbers.

    Returns:
        source i64[...] and draw i64[...].

    >>> deal(torch.arange(8), [1, 3])
    (tensor([1, 1, 1, 0, 1, 1, 1, 0]), tensor([0, 1, 2, 0, 3, 4, 5, 1]))
    """
    source = torch.full_like(position, len(parts) - 1)
    draw = torch.zeros_like(position)
    waiting = torch.ones_like(position, dtype=torch.bool)
    left = position
    for number, part in enumerate(parts[:-1]):
        whole = sum(parts[number:])
        before = left * part // whole
        taken = waiting & ((left + 1) * part // whole > before)
        source = torch.where(taken, number, source)
        draw = torch.where(taken, before, draw)
        waiting = waiting & ~taken
        left = torch.where(waiting, left - before, left)
    return source, torch.where(waiting, left, draw)
