"""How far two tensors are apart that should have the same bits.

Absent on purpose: tolerances. Whoever repeats a round gets its bits or does not, and
this is for telling where and by how much.
"""

import math

import attrs
import torch
from torch import Tensor

from speedtronic.pure.reduction import fold_row, real, square

_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@attrs.frozen(kw_only=True)
class Difference:
    """What two tensors differ in; without arguments, nothing."""

    elements: int = 0  # with other bits; a complex one has two
    largest: float = 0.0  # absolute; NaN if one of a pair is no number
    ulps: float = 0.0  # the most numbers of the dtype that lie between a pair, plus 1
    squares: float = 0.0  # the sum of squared differences

    def __str__(self) -> str:
        """In words.

        >>> print(Difference(elements=3, largest=0.25, ulps=2.0, squares=0.1))
        3 elements, by at most 0.25 (2 ulp)
        """
        plural = "" if self.elements == 1 else "s"
        ulps = "" if math.isnan(self.largest) else f" ({self.ulps:.6g} ulp)"
        return f"{self.elements} element{plural}, by at most {self.largest:.3g}{ulps}"


def difference(a: Tensor, b: Tensor) -> Difference:
    """Compare two tensors of one shape and dtype, bit for bit.

    An ulp is the step from one number of the dtype to the next; for integers it is 1.

    >>> difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 2**-22]))
    Difference(elements=1, largest=2.384...e-07, ulps=1.0, squares=5.684...e-14)
    """
    a, b = real(a).contiguous().view(-1), real(b).contiguous().view(-1)
    bits = _BITS[a.dtype.itemsize]
    unlike = a.view(bits) != b.view(bits)
    if not unlike.any():
        return Difference()
    a, b = a[unlike], b[unlike]
    apart = (a.double() - b.double()).abs()
    steps = (_place(a) - _place(b)).abs() if a.is_floating_point() else apart
    return Difference(
        elements=len(a),
        largest=apart.max().item(),
        ulps=steps.max().item(),
        squares=fold_row(square(apart)).item(),
    )


def joined(one: Difference, other: Difference) -> Difference:
    """The difference of two pieces taken together.

    >>> one = Difference(elements=1, largest=2.0, ulps=9.0, squares=4.0)
    >>> joined(one, Difference())
    Difference(elements=1, largest=2.0, ulps=9.0, squares=4.0)
    """
    return Difference(
        elements=one.elements + other.elements,
        largest=_most(one.largest, other.largest),
        ulps=_most(one.ulps, other.ulps),
        squares=one.squares + other.squares,
    )


def _place(x: Tensor) -> Tensor:
    """The place of each number among all of its dtype, as float64."""
    bits = x.view(_BITS[x.dtype.itemsize])
    size = bits & torch.iinfo(bits.dtype).max
    return torch.where(bits < 0, -size, size).double()


def _most(one: float, other: float) -> float:
    return one if math.isnan(one) else other if math.isnan(other) else max(one, other)
