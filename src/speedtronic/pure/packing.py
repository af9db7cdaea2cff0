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

_ALIGNED = 16  # numbers; a kernel may count on tensors that begin at 64 bytes


def pack(total: Accumulated, parts: int) -> Tensor:
    """The sums of a share in so many parts, f32[parts, N + 1].

    The last number of each part is the share's count, without which it cannot be added.

    >>> one = torch.ones(())
    >>> total = Accumulated(
    ...     grads={"w": torch.ones(2)}, loss_sum=one, count=one, metrics={}, buffers={})
    >>> pack(total, 2).shape
    torch.Size([2, 25])
    """
    pieces: list[Tensor] = []
    for leaf in _leaves(total):
        pieces += [leaf.reshape(-1), leaf.new_zeros(-leaf.numel() % _ALIGNED)]
    size = sum(piece.numel() for piece in pieces)
    pieces.append(total.count.new_zeros(-size % parts))
    count = total.count.expand(parts, 1)
    return torch.cat([torch.cat(pieces).reshape(parts, -1), count], dim=1)


def add_parts(parts: Tensor) -> Tensor:
    """The sum of the same part of all ranks, f32[N], in the order of ranks.

    Args:
        parts: f32[R, N + 1], one rank's in each row.

    >>> add_parts(torch.tensor([[1.0, 2.0, 4.0], [3.0, torch.nan, 0.0]]))
    tensor([1., 2.])
    """
    shares = [
        Accumulated(
            grads={"part": part[:-1]},
            loss_sum=part[-1],
            count=part[-1],
            metrics={},
            buffers={},
        )
        for part in parts
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
    >>> same = unpack(pack(total, 2)[:, :-1], total)
    >>> same.grads, same.metrics
    ({'w': tensor([[1.], [1.]])}, {'accuracy': tensor(1.)})
    """
    flat, first, found = sums.reshape(-1), 0, []
    for leaf in _leaves(like):
        size = math.prod(leaf.shape)
        found.append(flat[first : first + size].reshape(leaf.shape))
        first += size + -size % _ALIGNED
    loss_sum, count, *rest = found
    # The names as in `like`, whose order the optimizer's state may have.
    grads = dict(zip(sorted(like.grads), rest, strict=False))
    metrics = dict(zip(sorted(like.metrics), rest[len(grads) :], strict=True))
    return evolve(
        like,
        grads={name: grads[name] for name in like.grads},
        loss_sum=loss_sum,
        count=count,
        metrics={name: metrics[name] for name in like.metrics},
    )


def _leaves(total: Accumulated) -> list[Tensor]:
    """What is added, in an order that does not depend on how a dict was filled."""
    named = [total.grads[name] for name in sorted(total.grads)]
    named += [total.metrics[name] for name in sorted(total.metrics)]
    return [total.loss_sum, total.count, *named]
