"""Reductions that decide something, with the same bits on every CPU.

``torch.sum`` splits its work by thread and vector width, so machines round in
different ways. What all nodes must agree on, such as a norm against a bound, is added
here with plain operations in an order that depends on nothing but shapes.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

ROW = 32_768  # elements that torch's CPU kernels take on without a second thread


def real(x: Tensor) -> Tensor:
    """A complex tensor as pairs of floats, other tensors as they are; a view.

    Compilers fuse complex arithmetic as they like, that of its parts they do not.

    >>> real(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def like_real(x: Tensor, reals: Tensor) -> Tensor:
    """Undo ``real`` for a result: complex if ``x`` is.

    >>> like_real(torch.tensor([0j]), torch.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    return torch.view_as_complex(reals) if x.is_complex() else reals


def sum_in_order(x: Tensor) -> Tensor:
    """The sum of all elements, in an order that depends on their number only.

    Rows of `ROW` elements are added one to the other, then the last is folded.

    Returns:
        A 0-d tensor of the same dtype; 0 when there are no elements.

    >>> sum_in_order(torch.arange(5.0))
    tensor(10.)
    """
    return fold_row(
        add_rows(torch.zeros(0, dtype=x.dtype), torch.split(x.reshape(-1), ROW))
    )


def norm_in_order(tensors: Iterable[Tensor]) -> Tensor:
    """The 2-norm of all tensors taken as one vector, in the order given.

    Returns:
        f64[]; not finite if an element is not.

    >>> norm_in_order([torch.tensor([3.0]), torch.tensor([4.0])])
    tensor(5., dtype=torch.float64)
    """
    total = torch.zeros((), dtype=torch.float64)
    for x in tensors:
        rows = torch.split(real(x).reshape(-1), ROW)
        empty = torch.zeros(0, dtype=torch.float64)
        total = total + fold_row(add_rows(empty, map(square, rows)))
    return total.sqrt()


def square(row: Tensor) -> Tensor:
    """Squares in float64, where those of float32 neither overflow nor round.

    >>> square(torch.tensor([3.0]))
    tensor([9.], dtype=torch.float64)
    """
    wide = row.double()
    return wide * wide


def add_rows(total: Tensor, rows: Iterable[Tensor]) -> Tensor:
    """Add rows to ``total`` one after the other; a row may be shorter or longer.

    >>> add_rows(torch.tensor([1.0, 1.0]), [torch.tensor([5.0])])
    tensor([6., 1.])
    """
    for row in rows:
        shared = min(len(total), len(row))
        head = total[:shared] + row[:shared]
        rest = [total[shared:], row[shared:]]
        total = torch.cat([head, *rest]) if len(total) != len(row) else head
    return total


def fold_row(row: Tensor) -> Tensor:
    """The sum of a row, by adding its second half to its first, again and again.

    >>> fold_row(torch.tensor([1.0, 2.0, 4.0]))
    tensor(7.)
    """
    while len(row) > 1:
        half = len(row) // 2
        row = torch.cat([row[:half] + row[half : 2 * half], row[2 * half :]])
    return row[0] if len(row) else row.new_zeros(())


def all_finite(x: Tensor) -> bool:
    """Whether every element is finite; true for integers and for no elements.

    >>> all_finite(torch.tensor([1.0, float("nan")]))
    False
    """
    if not x.numel() or not (x.is_floating_point() or x.is_complex()):
        return True
    parts = real(x)
    wide = parts if parts.dtype == torch.float64 else parts.to(torch.float32)
    low, high = torch.aminmax(wide)  # one pass; both are NaN if any element is
    return bool(torch.isfinite(low) & torch.isfinite(high))
