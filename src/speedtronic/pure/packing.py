"""One step's sums as a flat vector, for several processes that add theirs up.

Each of R ranks packs its `Accumulated` and cuts the vector into R parts. A rank gets
the same part from everybody, adds these in the order of ranks (`add_parts`), and
everybody gets all the sums. So the order of the additions, and with it every bit, is
that of `add_accumulated` over the ranks, whatever carries the parts: R ranks with one
micro-batch each step like one process with R micro-batches.

Deliberately absent: buffers, which are not added (`Accumulated.buffers`), and any
sending. R ranks, N numbers of a part.
"""

import functools
import math

import torch
from torch import Tensor

from speedtronic.pure.inner import Accumulated, add_accumulated
from speedtronic.pure.tree import evolve

_ALIGNED = 16  # numbers; kernels are faster on tensors that begin at 64 bytes


def pack(total: Accumulated, parts: int) -> Tensor:
    """The sums of a share in so many parts, f32[parts, N].

    >>> one = torch.ones(())
    >>> total = Accumulated(
    ...     grads={"w": torch.ones(2)}, loss_sum=one, count=one, metrics={}, buffers={})
    >>> pack(total, 2).shape
    torch.Size([2, 16])
    """
    pieces: list[Tensor] = []
    for leaf in (*_grads(total), torch.stack(_numbers(total))):
        pieces.append(leaf.reshape(-1))
        if padding := -leaf.numel() % _ALIGNED:
            pieces.append(leaf.new_zeros(padding))
    size = sum(piece.numel() for piece in pieces)
    pieces.append(total.count.new_zeros(-size % parts))
    return torch.cat(pieces).reshape(parts, -1)


def add_parts(parts: Tensor, counts: Tensor) -> Tensor:
    """The sum of the same part of all ranks, f32[N], in the order of ranks.

    Args:
        parts: f32[R, N], one rank's in each row.
        counts: f32[R], the targets that each share counts.

    >>> parts = torch.tensor([[1.0, 2.0], [3.0, torch.nan], [4.0, 5.0]])
    >>> add_parts(parts, torch.tensor([6.0, 0.0, 6.0]))
    tensor([5., 7.])
    """
    shares = [
        Accumulated(
            grads={"part": part}, loss_sum=count, count=count, metrics={}, buffers={}
        )
        for part, count in zip(parts, counts, strict=True)
    ]
    return functools.reduce(add_accumulated, shares).grads["part"]


def unpack(sums: Tensor, like: Accumulated) -> Accumulated:
    """The added share; its buffers are those of ``like``.

    Args:
        sums: f32[R * N] or f32[R, N], all parts in order.
        like: a share that was packed.

    >>> one = torch.ones(())
    >>> total = Accumulated(grads={"w": torch.ones(2, 1)}, loss_sum=one, count=one,
    ...     metrics={"accuracy": one}, buffers={})
    >>> same = unpack(pack(total, 2), total)
    >>> same.grads, same.metrics
    ({'w': tensor([[1.], [1.]])}, {'accuracy': tensor(1.)})
    """
    shapes = [leaf.shape for leaf in _grads(like)]
    shapes.append(torch.Size([2 + len(like.metrics)]))
    sizes = [math.prod(shape) for shape in shapes]
    padded = [size + -size % _ALIGNED for size in sizes]
    flat = sums.reshape(-1)
    pieces = torch.split(flat, [*padded, flat.numel() - sum(padded)])
    *leaves, numbers = (
        piece[:size].reshape(shape)
        for piece, size, shape in zip(pieces, sizes, shapes, strict=False)
    )
    grads = dict(zip(sorted(like.grads), leaves, strict=True))
    loss_sum, count, *means = numbers.unbind()
    metrics = dict(zip(sorted(like.metrics), means, strict=True))
    # The names as in `like`, whose order the optimizer's state may have.
    return evolve(
        like,
        grads={name: grads[name] for name in like.grads},
        loss_sum=loss_sum,
        count=count,
        metrics={name: metrics[name] for name in like.metrics},
    )


def _grads(total: Accumulated) -> list[Tensor]:
    """In an order that does not depend on how the dict was filled."""
    return [total.grads[name] for name in sorted(total.grads)]


def _numbers(total: Accumulated) -> list[Tensor]:
    named = [total.metrics[name] for name in sorted(total.metrics)]
    return [total.loss_sum, total.count, *named]
