"""Whether a model's own loss is what its logits and the given labels say."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from speedtronic.pure.contract import count_of, labels_of, loss_of
from speedtronic.pure.loss import cross_entropy_sum
from speedtronic.pure.module import ModuleLoss, split, takes_labels
from speedtronic.pure.random import key_from_seed
from speedtronic.pure.types import Batch, Params
from speedtronic.shell.session import full_precision

_TOLERANCE = 1e-3  # relative; both losses are computed in float32


def outputs(
    module: nn.Module, batch: Batch, *, labels: bool = True, shaken: bool = False
) -> Any:
    """What the model returns in evaluation mode on the CPU, without autocast."""
    params, frozen, buffers = split(module)
    weights = full_precision(params | frozen)
    if shaken:
        weights = _shake(weights)
    with_labels = labels and takes_labels(module)
    loss = ModuleLoss(module, train=False, pass_labels=with_labels)
    # Not without gradients: a loss may take one itself.
    return loss.outputs(weights, buffers, batch, key_from_seed(0))


def own_loss(module: nn.Module, batch: Batch) -> list[str]:
    """Whether a loss that the model computes is that of its logits.

    A model that shifts labels which are shifted already learns the token after next,
    and its loss looks healthy. A model with another loss on purpose says so by
    returning ``loss_sum`` and ``count``.
    """
    labels = labels_of(batch)
    if labels is None or labels.is_floating_point() or not takes_labels(module):
        return []
    # Weights as built, and shaken: fresh logits may be flat, and then every label
    # has the same loss.
    for shaken in (False, True):
        output = outputs(module, batch, shaken=shaken)
        logits = _logits(module, output, batch, shaken)
        if logits is None or _says_its_own(output):
            return []
        loss_sum, _, _ = loss_of(output, batch)
        count = max(1.0, count_of(batch).item())
        own = loss_sum.item() / count
        right = cross_entropy_sum(logits, labels)[0].item() / count
        if math.isfinite(own - right) and not _close(own, right):
            return [_mismatch(own, right, logits, labels)]
    return []


def _mismatch(own: float, right: float, logits: Tensor, labels: Tensor) -> str:
    told = (
        f"model.name: the model's own loss is {own:.4f}, the cross-entropy of its "
        f"logits is {right:.4f}"
    )
    if labels.ndim > 1 and _close(own, _shifted(logits, labels)):
        return (
            f"{told}; it shifts the labels, which are shifted already (one next token "
            "per position): drop the shift, or return the logits alone"
        )
    return (
        f"{told}; return the logits alone, or 'loss_sum' and 'count' if another loss "
        "is meant"
    )


def _shifted(logits: Tensor, labels: Tensor) -> float:
    """The loss of a model that shifts the labels once more."""
    loss_sum, count = cross_entropy_sum(logits[..., :-1, :], labels[..., 1:])
    return loss_sum.item() / max(1.0, count.item())


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= _TOLERANCE * max(1.0, other)


def _logits(
    module: nn.Module, output: Any, batch: Batch, shaken: bool
) -> Tensor | None:
    """The logits that a model returns beside its loss, or without labels."""
    found = _shaped_logits(output, batch)
    if found is None:
        try:
            without = outputs(module, batch, labels=False, shaken=shaken)
        except Exception:  # it needs the labels: nothing to compare with
            return None
        found = _shaped_logits(without, batch)
    return found


def _shaped_logits(output: Any, batch: Batch) -> Tensor | None:
    parts = output.values() if isinstance(output, Mapping) else output
    parts = [parts] if isinstance(parts, Tensor) else parts
    labels = labels_of(batch)
    for part in parts:
        if isinstance(part, Tensor) and labels is not None and part.ndim >= 2:
            if part.shape[:-1] == labels.shape and part.is_floating_point():
                return part
    return None


def _says_its_own(output: Any) -> bool:
    return isinstance(output, Mapping) and output.get("loss_sum") is not None


def _shake(weights: Params) -> Params:
    generator = torch.Generator().manual_seed(0)

    def shaken(weight: Tensor) -> Tensor:
        if not weight.is_floating_point():
            return weight
        return weight + 0.1 * torch.randn(weight.shape, generator=generator)

    return {name: shaken(weight) for name, weight in weights.items()}
