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
    """In what two tensors differ."""

    compared: int = 0  # elements; a complex one counts as two
    elements: int = 0  # with other bits
    largest: float = 0.0  # absolute; NaN if one of a pair is no number
    ulps: float = 0.0  # the most numbers of the dtype that lie between a pair, plus 1
    squares: float = 0.0  # the sum of squared differences

    def __str__(self) -> str:
        """In words.

        >>> print(Difference(compared=8, elements=3, largest=0.25, ulps=2.0))
        3 of 8 elements, by at most 0.25 (2 ulp)
        """
        ulps = "" if math.isnan(self.largest) else f" ({self.ulps:.6g} ulp)"
        count = f"{self.elements} of {self.compared} elements"
        return f"{count}, by at most {self.largest:.3g}{ulps}"


def difference(a: Tensor, b: Tensor) -> Difference:
    """Compare two tensors of one shape and dtype, bit for bit.

    An ulp is the step from one number of the dtype to the next; for integers it is 1.

    >>> difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 2**-22]))
    Difference(compared=2, elements=1, largest=2.384...e-07, ulps=1.0, squares=5...e-14)
    """
    a, b = real(a).contiguous().view(-1), real(b).contiguous().view(-1)
    bits = _BITS[a.dtype.itemsize]
    unlike = a.view(bits) != b.view(bits)
    if not unlike.any():
        return Difference(compared=len(unlike))
    a, b = a[unlike], b[unlike]
    apart = (a.double() - b.double()).abs()
    steps = (_place(a) - _place(b)).abs() if a.is_floating_point() else apart
    return Difference(
        compared=len(unlike),
        elements=len(a),
        largest=apart.max().item(),
        ulps=steps.max().item(),
        squares=fold_row(square(apart)).item(),
    )


def joined(one: Difference, other: Difference) -> Difference:
    """The difference of two pieces taken together.

    >>> one = Difference(compared=3, elements=1, largest=2.0, ulps=9.0, squares=4.0)
    >>> joined(one, Difference(compared=5))
    Difference(compared=8, elements=1, largest=2.0, ulps=9.0, squares=4.0)
    """
    return Difference(
        compared=one.compared + other.compared,
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
