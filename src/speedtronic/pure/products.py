"""Inner products of whole deltas, from one pass over their rows.

A rule that looks at deltas as vectors needs no more than this: the length of any
weighted sum of them, and its distance from any of them, follow from the products. So
what such a rule iterates on is a small table of Python floats, whatever the model.

Products are float64 and are added row by row in the order of `ROW`, tensor after
tensor, so the table has the same bits on every CPU. In float64 a distance that is
computed as ``|a|^2 - 2 a.b + |b|^2`` is exact to about 1e-8 of the lengths, less than
one float32 rounding of the deltas themselves.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from speedtronic.pure.reduction import ROW, add_rows, fold_row, real


class Products(NamedTuple):
    """What a rule may know of n deltas as vectors."""

    squares: tuple[float, ...]  # |x_i|^2
    pairs: tuple[tuple[float, ...], ...] = ()  # x_i . x_j, n by n; () if not asked for


def products(vectors: Sequence[Mapping[str, Tensor]], *, crossed: bool) -> Products:
    """The table of deltas.

    Args:
        vectors: the parameters of each, of the same names and shapes.
        crossed: whether all pairs are asked for, or squares only.

    >>> one, other = torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0])
    >>> products([{"w": one}, {"w": other}], crossed=True)
    Products(squares=(25.0, 1.0), pairs=((25.0, 3.0), (3.0, 1.0)))
    """
    where = places(len(vectors), crossed=crossed)
    totals = [torch.zeros(0, dtype=torch.float64) for _ in where]
    for name in sorted(vectors[0]) if vectors else ():
        pieces = [torch.split(real(v[name]).reshape(-1), ROW) for v in vectors]
        for rows in zip(*pieces, strict=True):
            wide = [row.double() for row in rows]
            totals = [
                add_rows(total, [wide[i] * wide[j]])
                for total, (i, j) in zip(totals, where, strict=True)
            ]
    sums = [fold_row(total).item() for total in totals]
    return from_sums(sums, len(vectors), crossed=crossed)


def places(count: int, *, crossed: bool) -> list[tuple[int, int]]:
    """Which products of ``count`` deltas are added up, in this order.

    >>> places(2, crossed=True), places(2, crossed=False)
    ([(0, 0), (0, 1), (1, 1)], [(0, 0), (1, 1)])
    """
    each = range(count)
    return [(i, j) for i in each for j in each if i == j or (crossed and i < j)]


def from_sums(sums: Sequence[float], count: int, *, crossed: bool) -> Products:
    """The table, from the sums at all `places`.

    >>> from_sums([4.0, 2.0, 1.0], 2, crossed=True)
    Products(squares=(4.0, 1.0), pairs=((4.0, 2.0), (2.0, 1.0)))
    """
    found = dict(zip(places(count, crossed=crossed), sums, strict=True))
    each = range(count)
    squares = tuple(found[i, i] for i in each)
    if not crossed:
        return Products(squares)
    pairs = tuple(tuple(found[min(i, j), max(i, j)] for j in each) for i in each)
    return Products(squares, pairs)


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
