"""Next-token cross-entropy as a sum and a count, so that any split adds up.

B batch, T tokens, N rows, D width, V vocabulary.

Labels are already shifted: one per input position; -100 is ignored. The loss is
float32 whatever the dtype of the logits. The mean is not taken here: it needs the
count of the whole step.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

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
    ``torch.autograd`` and by ``torch.func``, once, and under ``vmap``.

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
    rows = hidden.flatten(0, -2)
    targets = labels.flatten()
    loss_sum: Tensor = _ChunkedLoss.apply(rows, head_weight, targets, chunk_size)  # type: ignore[no-untyped-call]
    return loss_sum, count_labels(labels)


def count_labels(labels: Tensor) -> Tensor:
    """The number of labels that are not ignored, f32[]; exact below 2**24."""
    return (labels != IGNORED).sum().to(torch.float32)


def _loss_sum(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(
        logits.to(torch.float32), labels, ignore_index=IGNORED, reduction="sum"
    )


class _ChunkedLoss(torch.autograd.Function):
    """An explicit backward, because torch.func refuses activation checkpointing."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        hidden: Tensor, head_weight: Tensor, labels: Tensor, chunk_size: int
    ) -> Tensor:
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        for rows, targets in _pieces(hidden, labels, chunk_size):
            total = total + _loss_sum(F.linear(rows, head_weight), targets)
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        hidden, head_weight, labels, ctx.chunk_size = inputs
        ctx.save_for_backward(hidden, head_weight, labels)
        device = hidden.device.type
        ctx.dtype = hidden.dtype
        if torch.is_autocast_enabled(device):
            ctx.dtype = torch.get_autocast_dtype(device)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        hidden, head_weight, labels = ctx.saved_tensors
        weight = head_weight.to(ctx.dtype)
        grad_rows = []
        grad_weight = torch.zeros_like(head_weight)
        for rows, targets in _pieces(hidden, labels, ctx.chunk_size):
            rows = rows.to(ctx.dtype)
            grad_logits = _grad_logits(F.linear(rows, weight), targets, grad)
            grad_rows.append((grad_logits @ weight).to(hidden.dtype))
            grad_weight = grad_weight + grad_logits.T @ rows
        return torch.cat(grad_rows), grad_weight, None, None


def _grad_logits(logits: Tensor, labels: Tensor, grad: Tensor) -> Tensor:
    """Softmax minus one-hot, in float32, then in the dtype of the logits.

    The one-hot is a comparison, since a scatter has no fast deterministic kernel on
    CUDA.
    """
    labels = labels.unsqueeze(-1)
    probabilities = torch.softmax(logits.to(torch.float32), -1)
    hit = labels == torch.arange(logits.shape[-1], device=labels.device)
    difference = torch.where(hit, probabilities - 1, probabilities)
    return (difference * ((labels != IGNORED) * grad)).to(logits.dtype)


def _pieces(
    hidden: Tensor, labels: Tensor, chunk_size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    pieces = (torch.split(x, chunk_size) for x in (hidden, labels))
    return zip(*pieces, strict=True)
