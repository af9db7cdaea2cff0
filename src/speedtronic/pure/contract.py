"""What a model may return, and the loss that follows from it.

A batch that is a mapping is passed as keyword arguments, a tuple or list as
``(inputs, labels)``. The model returns one of

1. a loss (a 0-d tensor, the mean over counted targets),
2. a mapping with ``loss``, or with ``loss_sum`` and ``count``,
3. a mapping with ``logits``, or the logits themselves, [..., V] over labels [...],
4. a tuple that starts with the loss or with the logits.

Labels are already shifted: one next-token label per input position; -100 is ignored.
Further 0-d entries of a mapping are metrics, averaged by count and logged.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from speedtronic.pure.loss import IGNORED, cross_entropy_sum
from speedtronic.pure.tree import leaves

_NOT_METRICS = {"loss", "loss_sum", "count", "logits", "labels"}


class ContractError(ValueError):
    """The model returned something that has no loss in it."""


def labels_of(batch: Any) -> Tensor | None:
    """The labels of a batch, or None where it has none.

    >>> labels_of({"input_ids": torch.zeros(1, 2), "labels": torch.ones(1, 2)})
    tensor([[1., 1.]])
    """
    if isinstance(batch, Mapping):
        return batch.get("labels")
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        return batch[1] if isinstance(batch[1], Tensor) else None
    return None


def count_of(batch: Any) -> Tensor:
    """f32[]: targets that count, or rows where there are no integer labels."""
    labels = labels_of(batch)
    if labels is not None and not labels.is_floating_point():
        return (labels != IGNORED).sum().to(torch.float32)
    first = leaves(batch)[0]
    return torch.full((), float(first.shape[0]), device=first.device)


def rows_of(batch: Any) -> int:
    """Number of rows: the first dimension of the first tensor."""
    return int(leaves(batch)[0].shape[0])


def loss_of(output: Any, batch: Any) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Loss sum, count and metrics of a model's output.

    Raises:
        ContractError: if the output holds neither a loss nor usable logits.

    >>> labels = torch.tensor([[1, -100]])
    >>> loss_of(torch.tensor(2.0), {"labels": labels})[:2]
    (tensor(2.), tensor(1.))
    """
    metrics: dict[str, Tensor] = {}
    if isinstance(output, Mapping):
        metrics = {
            name: value.detach().to(torch.float32)
            for name, value in output.items()
            if name not in _NOT_METRICS and isinstance(value, Tensor) and not value.ndim
        }
        if output.get("loss_sum") is not None and output.get("count") is not None:
            count = output["count"].detach().to(torch.float32)
            return output["loss_sum"].to(torch.float32), count, metrics
        loss, logits = output.get("loss"), output.get("logits")
    else:
        first = output[0] if isinstance(output, (tuple, list)) and output else output
        is_loss = isinstance(first, Tensor) and first.ndim == 0
        loss, logits = (first, None) if is_loss else (None, first)
    if isinstance(loss, Tensor):
        return *_from_mean(loss, batch), metrics
    return *_from_logits(logits, batch, output), metrics


def _from_mean(loss: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
    if loss.ndim:
        raise ContractError(
            f"the model's loss has shape {list(loss.shape)}, expected a 0-d mean over"
            " the counted targets; return loss.mean()"
        )
    count = count_of(batch)
    # A mean over no target is 0/0; such a micro-batch contributes nothing.
    return torch.where(count > 0, loss.to(torch.float32) * count, 0.0), count


def _from_logits(logits: Any, batch: Any, output: Any) -> tuple[Tensor, Tensor]:
    labels = labels_of(batch)
    if not isinstance(logits, Tensor) or logits.ndim < 2:
        names = list(output) if isinstance(output, Mapping) else type(output).__name__
        raise ContractError(
            f"the model returned {names}, expected a loss, a mapping with 'loss' or"
            " 'logits', or a tuple that starts with one of them"
        )
    if labels is None or labels.shape != logits.shape[:-1]:
        found = "no labels" if labels is None else f"labels {list(labels.shape)}"
        raise ContractError(
            f"logits {list(logits.shape)} need labels {list(logits.shape[:-1])} in the"
            f" batch, found {found}"
        )
    return cross_entropy_sum(logits, labels)
