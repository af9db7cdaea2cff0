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
        metrics = _metrics(output)
        if output.get("loss_sum") is not None and output.get("count") is not None:
            loss_sum = _scalar("loss_sum", output["loss_sum"])
            return *_with_count(loss_sum, output["count"]), metrics
        loss, logits = output.get("loss"), output.get("logits")
    else:
        first = output[0] if isinstance(output, (tuple, list)) and output else output
        is_loss = isinstance(first, Tensor) and first.ndim == 0
        loss, logits = (first, None) if is_loss else (None, first)
    if loss is not None:
        return *_from_mean(loss, batch), metrics
    return *_from_logits(logits, batch, output), metrics


def _metrics(output: Mapping[Any, Any]) -> dict[str, Tensor]:
    found = {
        name: value
        for name, value in output.items()
        if name not in _NOT_METRICS and isinstance(value, Tensor) and not value.ndim
    }
    if other := [name for name in found if not isinstance(name, str)]:
        raise ContractError(f"the model names a metric {other[0]!r}, expected text")
    return {name: value.detach().to(torch.float32) for name, value in found.items()}


def _from_mean(loss: Any, batch: Any) -> tuple[Tensor, Tensor]:
    mean, count = _scalar("loss", loss), count_of(batch)
    # A mean over no target is 0/0; such a micro-batch contributes nothing.
    return torch.where(count > 0, mean * count, 0.0), count


def _with_count(loss_sum: Tensor, count: Any) -> tuple[Tensor, Tensor]:
    counted = torch.as_tensor(count, dtype=torch.float32, device=loss_sum.device)
    if counted.ndim:
        raise ContractError(
            f"the model's 'count' has shape {list(counted.shape)}, expected one number"
        )
    return loss_sum, counted.detach()


def _scalar(name: str, value: Any) -> Tensor:
    """A model's own loss in float32, if it is one."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise ContractError(f"the model's {name!r} is {kind}, expected a float tensor")
    if value.ndim:
        expected = {"loss": "mean over the counted targets; return loss.mean()"}
        raise ContractError(
            f"the model's {name!r} has shape {list(value.shape)}, expected a 0-d"
            f" {expected.get(name, 'sum over them')}"
        )
    return value.to(torch.float32)


def _from_logits(logits: Any, batch: Any, output: Any) -> tuple[Tensor, Tensor]:
    labels = labels_of(batch)
    if not isinstance(logits, Tensor) or logits.ndim < 2:
        raise ContractError(
            f"the model returned {_said(output)}, expected a loss, a mapping with"
            " 'loss' or 'logits', or a tuple that starts with one of them"
        )
    if labels is None or labels.shape != logits.shape[:-1]:
        found = "no labels" if labels is None else f"labels {list(labels.shape)}"
        raise ContractError(
            f"logits {list(logits.shape)} need labels {list(logits.shape[:-1])} in the"
            f" batch, found {found}"
        )
    if not logits.is_floating_point():
        raise ContractError(f"the logits are {logits.dtype}, expected a float tensor")
    return cross_entropy_sum(logits, labels)


def _said(output: Any) -> str:
    if isinstance(output, Mapping):
        return str(list(output))
    if isinstance(output, Tensor):
        return f"a tensor {list(output.shape)}"
    return type(output).__name__
