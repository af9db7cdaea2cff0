"""Whole documents packed into rows: a plan that depends on their lengths only.

A document that fits a row is never cut; a longer one is cut into pieces of a full row
and a rest. Pieces are packed best fit, longest first: a row takes the longest piece
left, then again and again the longest that still fits. Rows begin at a document (or go
on with a long one), and what stays free at their end is filled with ignored targets.

The plan names slots, not documents: slot k belongs to the k-th longest piece. Each
epoch permutes the documents, sorts the pieces by length without disturbing the order
of equals, and puts them into the slots. So every epoch has the same number of rows,
and each piece stands in exactly one.
"""

import attrs
import torch
from torch import Tensor

from speedtronic.pure.tree import state


@state
class Pieces:
    """Documents cut to fit a row: P pieces, in the order of the documents."""

    start: Tensor  # i64[P], the first input token
    length: Tensor  # i64[P], positions: inputs, each with the next token as target


@attrs.frozen
class Plan:
    """Which slots are in which row: those from ``first[r]`` to ``first[r + 1]``."""

    first: Tensor  # i64[rows + 1]
    slot: Tensor  # i64[P]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.first) - 1


def cut_documents(starts: Tensor, ends: Tensor, block: int) -> Pieces:
    """Cut documents into pieces of at most ``block`` positions.

    A document of L tokens has L - 1 positions, because its last token is only a
    target; one of a single token has none and yields no piece.

    Args:
        starts: i64[D], the first token of each document.
        ends: i64[D], one past its last token.
        block: positions of a row.

    >>> cut_documents(torch.tensor([0, 6]), torch.tensor([6, 8]), 4)
    Pieces(start=tensor([0, 4, 6]), length=tensor([4, 1, 1]))
    """
    positions = ends - starts - 1
    pieces = (positions + block - 1) // block
    document = torch.repeat_interleave(torch.arange(len(starts)), pieces)
    before = torch.cumsum(pieces, 0) - pieces
    number = torch.arange(len(document)) - before[document]
    offset = number * block
    length = torch.clamp(positions[document] - offset, max=block)
    return Pieces(start=starts[document] + offset, length=length)


def plan_rows(lengths: Tensor, block: int) -> Plan:
    """Pack pieces into rows of ``block`` positions.

    Args:
        lengths: i64[P], each in [1, block].
        block: positions of a row.

    >>> plan_rows(torch.tensor([1, 4, 3, 1]), 4)
    Plan(first=tensor([0, 1, 3, 4]), slot=tensor([0, 1, 2, 3]))
    """
    left = torch.bincount(lengths, minlength=block + 1).tolist()
    slots_of = _first_slots(left)
    below = [n if count or n == 0 else n - 1 for n, count in enumerate(left)]
    firsts, slots = [torch.zeros(1, dtype=torch.int64)], []
    while _longest(below, block) > 0:
        pattern = _best_fit(below, left, block)
        repeats = min(left[length] // pattern.count(length) for length in set(pattern))
        row = torch.arange(repeats).unsqueeze(-1)
        columns = []
        for length in dict.fromkeys(pattern):
            count = pattern.count(length)
            columns.append(slots_of[length] + row * count + torch.arange(count))
            slots_of[length] += repeats * count
            left[length] -= repeats * count
            below[length] = length if left[length] else length - 1
        slots.append(torch.cat(columns, dim=1).flatten())
        firsts.append(firsts[-1][-1] + (torch.arange(repeats) + 1) * len(pattern))
    empty = torch.zeros(0, dtype=torch.int64)
    return Plan(torch.cat(firsts), torch.cat([empty, *slots]))


def fill_slots(lengths: Tensor, order: Tensor) -> Tensor:
    """The piece that each slot holds when the pieces come in ``order``.

    Args:
        lengths: i64[P].
        order: i64[P], a permutation of the pieces.

    Returns:
        i64[P]: pieces from the longest to the shortest, equals as they come.

    >>> fill_slots(torch.tensor([1, 3, 1]), torch.tensor([2, 1, 0]))
    tensor([1, 2, 0])
    """
    sorting = torch.sort(lengths[order], descending=True, stable=True)
    return order[sorting.indices]


def _first_slots(counts: list[int]) -> list[int]:
    """The first slot of each length when the longest come first."""
    firsts, total = [0] * len(counts), 0
    for length in range(len(counts) - 1, -1, -1):
        firsts[length] = total
        total += counts[length]
    return firsts


def _best_fit(below: list[int], left: list[int], block: int) -> list[int]:
    """The lengths of the next row: each time the longest left that still fits."""
    pattern: list[int] = []
    space, length = block, _longest(below, block)
    while length > 0:
        fitting = min(space // length, left[length])
        pattern += [length] * fitting
        space -= length * fitting
        length = _longest(below, min(space, length - 1))
    return pattern


def _longest(below: list[int], length: int) -> int:
    """The longest length left up to ``length``, or 0: a path that shortens with use.

    ``below`` leads from a length that is used up to a shorter one, from others to
    themselves (Tarjan, "Efficiency of a good but not linear set union algorithm").
    """
    while below[length] != length:
        below[length] = below[below[length]]
        length = below[length]
    return length
