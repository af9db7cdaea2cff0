"""Next-token cross-entropy as a sum and a count, so that any split adds up.

B batch, T tokens, N rows, D width, V vocabulary.

Labels are already shifted: one per input position; -100 is ignored. The loss is
float32 whatever the dtype of the logits. The mean is not taken here: it needs the
count of the whole step.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from speedtronic.pure.recompute import recomputed

IGNORED = -100


def cross_entropy_sum(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Sum the cross-entropy of all labels that are not ignored.

    Args:
        logits: float[..., V].
        labels: i64[...], -100 or in [0, V).

    Returns:
        (loss_sum, count), both f32[]; (0, 0) if every label is ignored. Gradients
        have the dtype of ``logits``.

    Raises:
        IndexError: on a CPU, for a label outside the vocabulary.

    >>> labels = torch.tensor([0, 1, -100])
    >>> loss_sum, count = cross_entropy_sum(torch.zeros(3, 2), labels)
    >>> print(f"{loss_sum:.4f} {count:.0f}")
    1.3863 2
    """
    return _loss_sum(logits.flatten(0, -2), labels.flatten()), count_labels(labels)


def chunked_cross_entropy_sum(
    hidden: Tensor, head_weight: Tensor, labels: Tensor, chunk_size: int
) -> tuple[Tensor, Tensor]:
    """`cross_entropy_sum` of ``hidden @ head_weight.T`` without the whole product.

    At most ``chunk_size`` rows of logits exist at a time, in the forward and in the
    backward pass, which computes them again. It can be differentiated by
    ``torch.autograd`` and by ``torch.func``, and batched by ``torch.vmap``.

    Args:
        hidden: float[..., D].
        head_weight: float[V, D].
        labels: i64[...], -100 or in [0, V).
        chunk_size: rows per piece, at least 1; it need not divide the rows.

    >>> hidden, weight = torch.ones(3, 4), torch.zeros(2, 4)
    >>> labels = torch.tensor([0, 1, -100])
    >>> loss_sum, count = chunked_cross_entropy_sum(hidden, weight, labels, 2)
    >>> print(f"{loss_sum:.4f} {count:.0f}")
    1.3863 2
    """
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")
    total = torch.zeros((), dtype=torch.float32, device=hidden.device)
    hidden, labels = hidden.flatten(0, -2), labels.flatten()
    pieces = (torch.split(x, chunk_size) for x in (hidden, labels))
    for rows, targets in zip(*pieces, strict=True):
        total = total + _recomputed_piece(rows, head_weight, targets)
    return total, count_labels(labels)


def count_labels(labels: Tensor) -> Tensor:
    """The number of labels that are not ignored, f32[]; exact below 2**24."""
    return (labels != IGNORED).sum().to(torch.float32)


def _loss_sum(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(
        logits.to(torch.float32), labels, ignore_index=IGNORED, reduction="sum"
    )


def _piece(rows: Tensor, head_weight: Tensor, labels: Tensor) -> Tensor:
    return _loss_sum(F.linear(rows, head_weight), labels)


_recomputed_piece = recomputed(_piece, constants=["labels"])
