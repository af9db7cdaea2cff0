"""Inner products of whole deltas, from one pass over their rows.

A rule that looks at deltas as vectors needs no more than this: the length of any
weighted sum of them, and its distance from any of them, follow from the products. So
what such a rule iterates on is a small table of Python floats, whatever the model.

Products are float64 and are added row by row in the order of `ROW`, tensor after
tensor, so the table has the same bits on every CPU. In float64 a distance that is
computed as ``|a|^2 - 2 a.b + |b|^2`` is exact to about 1e-8 of the lengths, less than
one float32 rounding of the deltas themselves.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from speedtronic.pure.reduction import ROW, add_rows, fold_row, real


class Products(NamedTuple):
    """What a rule may know of n deltas as vectors."""

    squares: tuple[float, ...]  # |x_i|^2
    pairs: tuple[tuple[float, ...], ...] = ()  # x_i . x_j, n by n; () if not asked for


class Tally(NamedTuple):
    """Sums of products that are not complete yet."""

    deltas: int  # how many, n
    crossed: bool  # all pairs, or each delta with itself only
    totals: tuple[Tensor, ...]  # f64[at most ROW] each, in the order of `_indices`


def start_tally(count: int, *, crossed: bool) -> Tally:
    """Before the first row.

    Args:
        count: how many deltas there are.
        crossed: whether all pairs are asked for, or squares only.

    >>> len(start_tally(3, crossed=True).totals), len(start_tally(3, crossed=False)[2])
    (6, 3)
    """
    empty = torch.zeros(0, dtype=torch.float64)
    return Tally(count, crossed, tuple(empty for _ in _indices(count, crossed)))


def add_to_tally(tally: Tally, rows: Sequence[Tensor]) -> Tally:
    """Add the products of one row of each delta, real and of equal length.

    >>> rows = [torch.tensor([1.0, 2.0]), torch.tensor([3.0, 0.0])]
    >>> finish_tally(add_to_tally(start_tally(2, crossed=True), rows)).pairs
    ((5.0, 3.0), (3.0, 9.0))
    """
    wide = [row.double() for row in rows]
    indices = _indices(tally.deltas, tally.crossed)
    totals = tuple(
        add_rows(total, [wide[i] * wide[j]])
        for total, (i, j) in zip(tally.totals, indices, strict=True)
    )
    return tally._replace(totals=totals)


def finish_tally(tally: Tally) -> Products:
    """The sums as Python floats.

    >>> finish_tally(start_tally(2, crossed=False))
    Products(squares=(0.0, 0.0), pairs=())
    """
    indices = _indices(tally.deltas, tally.crossed)
    found = {
        index: fold_row(total).item()
        for index, total in zip(indices, tally.totals, strict=True)
    }
    each = range(tally.deltas)
    squares = tuple(found[i, i] for i in each)
    if not tally.crossed:
        return Products(squares)
    pairs = tuple(tuple(found[min(i, j), max(i, j)] for j in each) for i in each)
    return Products(squares, pairs)


def products(vectors: Sequence[Mapping[str, Tensor]], *, crossed: bool) -> Products:
    """The table for deltas in memory.

    Args:
        vectors: the parameters of each, of the same names and shapes.
        crossed: whether all pairs are asked for, or squares only.

    >>> products([{"w": torch.tensor([3.0, 4.0])}], crossed=False)
    Products(squares=(25.0,), pairs=())
    """
    tally = start_tally(len(vectors), crossed=crossed)
    for name in sorted(vectors[0]) if vectors else ():
        pieces = [_rows(vector[name]) for vector in vectors]
        for rows in zip(*pieces, strict=True):
            tally = add_to_tally(tally, rows)
    return finish_tally(tally)


def scaled(table: Products, factors: Sequence[float]) -> Products:
    """The table of deltas that are each multiplied by a factor.

    >>> scaled(Products((4.0, 1.0)), [0.5, 1.0]).squares
    (1.0, 1.0)
    """
    squares = zip(table.squares, factors, strict=True)
    pairs = [zip(row, factors, strict=True) for row in table.pairs]
    return Products(
        tuple(x * f * f for x, f in squares),
        tuple(
            tuple(x * own * f for x, f in row)
            for row, own in zip(pairs, factors, strict=False)
        ),
    )


def _rows(x: Tensor) -> Iterable[Tensor]:
    return torch.split(real(x).reshape(-1), ROW)


def _indices(count: int, crossed: bool) -> list[tuple[int, int]]:
    return [(i, j) for i in range(count) for j in range(i, count) if crossed or i == j]
