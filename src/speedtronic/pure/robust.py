"""Rules that a few wrong deltas cannot ruin, whatever is in them.

With n deltas, f of them faulty. How many it can be, and how many deltas a rule needs:

==================  ==============================  =============  ==================
rule                what it does                    faulty         needs
==================  ==============================  =============  ==================
`norm_clip`         shortens the long ones          length only    3
`median`            middle of every coordinate      f < n / 2      3
`trimmed_mean`      without the b most extreme      f <= b         max(3, 2b + 1)
`geometric_median`  smallest sum of distances       f < n / 2      3
`centered_clip`     mean of what lies in a ball     f < n / 2      3
`multi_krum`        mean of the n - f closest ones  f as told      2f + 3
==================  ==============================  =============  ==================

With fewer deltas than that they raise ValueError: of two nobody can tell which is
wrong, and a rule that silently turned into a mean would protect nobody. A leader's
quorum is at least that number, so its rounds never have fewer.

A node has one vote, however many deltas of it there are (`one_vote`). Deltas are taken
as `by_steps` levels them, so that a node with the work of several rounds is no outlier.
Buffers, which travel as values, are set to the middle of
every element (the lower one of two integers) if more than half of the deltas have them.
With ``discount`` an older delta has a smaller vote (`staleness_weight`).

Everything that is not a row of numbers is computed in Python floats with `math.fsum`
and square roots, which round in the same way everywhere.

Absent on purpose: what is remembered of a node from round to round.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from speedtronic.pure import rules
from speedtronic.pure.aggregate import Aggregator, times
from speedtronic.pure.origin import alike, by_steps, discounted, middle, one_vote
from speedtronic.pure.products import Products

FLOOR = 1e-3  # of the median distance: the geometric median is smooth below it
MOST_STEPS = 200  # of Weiszfeld's iteration
SETTLED = 1e-10  # change of a share at which it ends
CLIP_STEPS = 10  # of centered clipping


def norm_clip(clip: float = 1.0, *, discount: bool = False) -> Aggregator:
    """The mean of deltas that are shortened to ``clip`` times the median length::

        sum_i w_i x_i min(1, clip m / |x_i|) / sum_i w_i       m the median of |x_i|

    Source: arXiv:1911.07963, section 4, with the bound taken from the round itself.
    With f < n / 2 the result is no longer than ``clip`` times the longest honest delta.
    It bounds lengths, not directions: f deltas of usual length have f shares of n.

    >>> shares = norm_clip().combine([1.0, 1.0, 1.0], Products((1.0, 1.0, 100.0)))
    >>> [round(share, 3) for share in shares]
    [0.333, 0.333, 0.033]
    """
    _check(rules.number_problems(clip=clip))

    def combine(weights: Sequence[float], table: Products) -> list[float]:
        shortened = _shortened(_lengths(table), clip)
        total = math.fsum(weights)
        return [w / total * c for w, c in zip(weights, shortened, strict=True)]

    return _by_vectors(combine, rules.least("norm_clip"), discount, squares=True)


def clipped(lengths: Sequence[float], clip: float = 1.0) -> tuple[bool, ...]:
    """Which deltas of these lengths `norm_clip` shortens.

    >>> clipped([1.0, 1.1, 0.9, 30.0], clip=2.0)
    (False, False, False, True)
    """
    return tuple(share < 1.0 for share in _shortened(lengths, clip))


def median(*, discount: bool = False) -> Aggregator:
    """The middle of every coordinate; of an even number, the mean of the middle two.

    Source: arXiv:1803.01498, definition 1. With f < n / 2 every coordinate is between
    those of honest deltas. With unequal weights: the mean of the lower and the upper
    weighted median, where the weights below and above are at most half.

    >>> rule = median()
    >>> state = rule.init(torch.tensor([1.0]), 1.0)
    >>> for x in (5.0, 1e30):
    ...     state = rule.update(state, torch.tensor([x]), 1.0)
    >>> rule.finish(state)
    tensor([5.])
    """
    return _by_rows(_middle, _weighted_middle, rules.least("median"), discount)


def trimmed_mean(faulty: int = 1, *, discount: bool = False) -> Aggregator:
    """For every coordinate the mean without the ``faulty`` smallest and largest values.

    Source: arXiv:1803.01498, definition 2. With at most ``faulty`` wrong deltas every
    coordinate is between those of honest ones. Needs more than twice ``faulty``.

    >>> rule = trimmed_mean()
    >>> state = rule.init(torch.tensor([1.0]), 1.0)
    >>> for x in (2.0, 4.0, 1e30):
    ...     state = rule.update(state, torch.tensor([x]), 1.0)
    >>> rule.finish(state)
    tensor([3.])
    """
    _check(rules.number_problems(faulty=faulty))

    def trimmed(rows: Sequence[Tensor]) -> Tensor:
        kept = _places(rows, faulty, len(rows) - faulty)
        return _sum(kept) / float(len(kept))

    def weighted(values: Tensor, weights: Tensor) -> Tensor:
        last = len(values) - faulty
        kept = list((values * weights)[faulty:last])
        return _sum(kept) / _sum(list(weights[faulty:last]))

    least = rules.least("trimmed_mean", faulty)
    return _by_rows(trimmed, weighted, least, discount)


def geometric_median(*, discount: bool = False) -> Aggregator:
    """The point with the smallest weighted sum of distances, by Weiszfeld's iteration::

        z <- sum_i b_i x_i / sum_i b_i        b_i = w_i / max(|x_i - z|, nu)

    Source: arXiv:1912.13445 (RFA), algorithm 2. Deviations: it begins at the mean of
    deltas shortened to the median length, where an outlier is not far away, nu is a
    thousandth of the median distance from there, and it goes on until the shares stay.
    With f < n / 2 it is within ``2 (n - f) / (n - 2 f)`` times the radius of the honest
    deltas from their centre, whichever it is.

    >>> pairs = (1.0, 1.0, 0.0), (1.0, 1.0, 0.0), (0.0, 0.0, 1e20)
    >>> table = Products((1.0, 1.0, 1e20), pairs)
    >>> shares = geometric_median().combine([1.0, 1.0, 1.0], table)
    >>> [round(share, 3) for share in shares]
    [0.5, 0.5, 0.0]
    """

    def combine(weights: Sequence[float], table: Products) -> list[float]:
        total = math.fsum(weights)
        shortened = _shortened(_lengths(table), 1.0)
        shares = [w / total * c for w, c in zip(weights, shortened, strict=True)]
        floor = FLOOR * middle(_distances(shares, table))
        for _ in range(MOST_STEPS if floor else 0):
            apart = _distances(shares, table)
            pulls = [w / max(d, floor) for w, d in zip(weights, apart, strict=True)]
            total = math.fsum(pulls)
            before, shares = shares, [pull / total for pull in pulls]
            moved = zip(before, shares, strict=True)
            if max(abs(a - b) for a, b in moved) <= SETTLED:
                break
        return shares

    return _by_vectors(combine, rules.least("geometric_median"), discount)


def centered_clip(clip: float = 1.0, *, discount: bool = False) -> Aggregator:
    """The mean, where what is further from it than a radius pulls no more than that::

        v <- v + sum_i w_i (x_i - v) min(1, r / |x_i - v|) / sum_i w_i

    ten times, from v = 0, with the radius r of ``clip`` median lengths.

    Source: arXiv:2012.10333, equation 7; there v begins at the round before, here at 0,
    so that a round is a function of its deltas. A small radius comes near to the
    geometric median, a large one to the mean. With f < n / 2 the result is no longer
    than ``1 + 10 clip f / n`` times the longest honest delta.

    >>> pairs = (1.0, 1.0, 0.0), (1.0, 1.0, 0.0), (0.0, 0.0, 1e20)
    >>> table = Products((1.0, 1.0, 1e20), pairs)
    >>> shares = centered_clip().combine([1.0, 1.0, 1.0], table)
    >>> [round(share, 3) for share in shares]
    [0.5, 0.5, 0.0]
    """
    _check(rules.number_problems(clip=clip))

    def combine(weights: Sequence[float], table: Products) -> list[float]:
        total = math.fsum(weights)
        radius = clip * middle(_lengths(table))
        shares = [0.0 for _ in weights]
        for _ in range(CLIP_STEPS):
            apart = _distances(shares, table)
            pulls = [
                w / total * (radius / d if d > radius else 1.0)
                for w, d in zip(weights, apart, strict=True)
            ]
            left = 1.0 - math.fsum(pulls)
            shares = [s * left + p for s, p in zip(shares, pulls, strict=True)]
        return shares

    return _by_vectors(combine, rules.least("centered_clip"), discount)


def multi_krum(faulty: int = 1, *, discount: bool = False) -> Aggregator:
    """The mean of the n - f deltas that lie closest to the others.

    The score of a delta is the sum of the squared distances to its n - f - 2 nearest
    others; those with the n - f smallest scores are averaged, of equal ones the first
    in order. Whole deltas are compared, not tensors one by one.

    Source: arXiv:1703.02757, section 4, with m = n - f. With at most ``faulty`` wrong
    deltas, everyone that counts is within ``sqrt((n - f - 2) / (n - 2 f - 1))`` times
    the largest distance between honest deltas from an honest one. Needs 2f + 3.

    >>> near = ((1.0, 0.9, 0.0), (0.9, 1.0, 0.0), (0.0, 0.0, 1.0))
    >>> multi_krum(faulty=0).combine([1.0, 1.0, 2.0], Products((1.0, 1.0, 1.0), near))
    [0.25, 0.25, 0.5]
    """
    _check(rules.number_problems(faulty=faulty))

    def combine(weights: Sequence[float], table: Products) -> list[float]:
        count = len(weights)
        scores = []
        for i in range(count):
            apart = sorted(_squared(table, i, j) for j in range(count) if j != i)
            scores.append((math.fsum(apart[: count - faulty - 2]), i))
        chosen = {i for _, i in sorted(scores)[: count - faulty]}
        total = math.fsum(weights[i] for i in chosen)
        return [w / total if i in chosen else 0.0 for i, w in enumerate(weights)]

    return _by_vectors(combine, rules.least("multi_krum", faulty), discount)


def _by_vectors(
    combine: Callable[[Sequence[float], Products], Sequence[float]],
    least: int,
    discount: bool,
    *,
    squares: bool = False,
) -> Aggregator:
    """A rule that is a weighted sum, of weights that follow from the products."""
    return Aggregator(
        weigh=discounted(one_vote) if discount else one_vote,
        init=times,
        update=lambda total, x, share: total + times(x, share),
        finish=lambda total: total,
        level=by_steps,
        combine=combine,
        needs="squares" if squares else "pairs",
        buffers=_BUFFERS,
        least=least,
    )


def _lengths(table: Products) -> list[float]:
    return [math.sqrt(square) for square in table.squares]


def _shortened(lengths: Sequence[float], clip: float) -> list[float]:
    """What each delta is multiplied by, so that none is longer than the bound."""
    bound = clip * middle(lengths)
    return [bound / length if length > bound else 1.0 for length in lengths]


def _squared(table: Products, i: int, j: int) -> float:
    """The squared distance of two deltas; rounding may take it below zero."""
    both = table.squares[i] + table.squares[j]
    return max(0.0, both - 2.0 * table.pairs[i][j])


def _distances(shares: Sequence[float], table: Products) -> list[float]:
    """Of each delta from the sum of all with these shares."""
    along = [
        math.fsum(s * x for s, x in zip(shares, row, strict=True))
        for row in table.pairs
    ]
    own = math.fsum(s * x for s, x in zip(shares, along, strict=True))
    return [
        math.sqrt(max(0.0, square - 2.0 * x + own))
        for square, x in zip(table.squares, along, strict=True)
    ]


class _Rows(NamedTuple):
    """All that is known of some coordinates."""

    rows: tuple[Tensor, ...]
    weights: tuple[float, ...]


def _by_rows(
    equal: Callable[[Sequence[Tensor]], Tensor],
    unequal: Callable[[Tensor, Tensor], Tensor],
    least: int,
    discount: bool,
) -> Aggregator:
    """A rule for coordinates: of rows, or of sorted values and the weights of each."""

    def finish(state: _Rows) -> Tensor:
        rows, weights = state
        if len(set(weights)) == 1:
            return equal(rows)
        values, places = torch.sort(torch.stack(rows), dim=0, stable=True)
        return unequal(values, torch.tensor(weights, dtype=values.dtype)[places])

    return Aggregator(
        weigh=discounted(one_vote) if discount else one_vote,
        init=lambda x, weight: _Rows((_plain(x),), (weight,)),
        update=lambda state, x, weight: _Rows(
            (*state.rows, _plain(x)), (*state.weights, weight)
        ),
        finish=finish,
        level=by_steps,
        buffers=_BUFFERS,
        least=least,
    )


def _plain(x: Tensor) -> Tensor:
    """A copy without negative zeros, of which a minimum may return either."""
    return x + 0.0 if x.is_floating_point() else x.clone()


def _middle(rows: Sequence[Tensor]) -> Tensor:
    """The middle of every element; integers and booleans take the lower one of two."""
    low = (len(rows) - 1) // 2
    if len(rows) % 2 or not rows[0].is_floating_point():
        return _places(rows, low, low + 1)[0]
    lower, upper = _places(rows, low, low + 2)
    return lower * 0.5 + upper * 0.5  # their sum may overflow


def _weighted_middle(values: Tensor, weights: Tensor) -> Tensor:
    """The lower and the upper weighted median of each column, and the mean of both."""
    total = _sum(list(weights))
    below = torch.zeros_like(total)
    lower = upper = values[-1]
    found = torch.zeros_like(total, dtype=torch.bool)
    passed = found
    for value, weight in zip(values, weights, strict=True):
        below = below + weight
        reached, beyond = below + below >= total, below + below > total
        lower = torch.where(reached & ~found, value, lower)
        upper = torch.where(beyond & ~passed, value, upper)
        found, passed = reached, beyond
    return lower * 0.5 + upper * 0.5


def _sum(rows: Sequence[Tensor]) -> Tensor:
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    return total


def _places(rows: Sequence[Tensor], first: int, last: int) -> list[Tensor]:
    """What would stand in places ``first`` to ``last - 1`` of each sorted column."""
    lanes = list(rows)
    for low, high, keep_low, keep_high in _network(len(rows), first, last):
        a, b = lanes[low], lanes[high]
        lanes[low] = torch.minimum(a, b) if keep_low else a
        lanes[high] = torch.maximum(a, b) if keep_high else b
    return lanes[first:last]


@functools.cache
def _network(
    count: int, first: int, last: int
) -> tuple[tuple[int, int, bool, bool], ...]:
    """Comparisons that sort some places: (low, high, minimum used, maximum used).

    Merge exchange (Knuth, The Art of Computer Programming, 5.2.2, algorithm M), less
    what these places do not depend on. It is several times faster than a sort of so
    few values.
    """
    exchanges = []
    top = 1 << max(0, (count - 1).bit_length() - 1)
    stride = top
    while stride:
        span, offset, apart = top, 0, stride
        while True:
            exchanges += [
                (i, i + apart) for i in range(count - apart) if i & stride == offset
            ]
            if span == stride:
                break
            apart, span, offset = span - stride, span // 2, stride
        stride //= 2
    wanted = set(range(first, last))
    used = []
    for low, high in reversed(exchanges):
        keep = low in wanted, high in wanted
        if any(keep):
            used.append((low, high, *keep))
            wanted |= {low, high}
    return tuple(reversed(used))


def _check(problems: Sequence[str]) -> None:
    if problems:
        raise ValueError("; ".join(problems))


_BUFFERS = Aggregator(
    weigh=alike,
    init=lambda x, weight: (_plain(x),),
    update=lambda rows, x, weight: (*rows, _plain(x)),
    finish=_middle,
)
