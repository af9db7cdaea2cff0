"""States and snapshots that the tests of checkpoints share."""

from typing import Any

import torch
from torch import Tensor

from speedtronic.pure.tree import named_leaves, state
from speedtronic.shell.checkpoint import Snapshot


@state
class Moments:
    """The state of a made-up optimizer."""

    first: dict[str, Tensor]
    count: Tensor


@state
class Training:
    """The shape of a training state, with every kind of leaf that one has."""

    params: dict[str, Tensor]
    frozen: dict[str, Tensor]
    buffers: dict[str, Tensor]
    optimizer: Any
    scale: Any
    key: Tensor
    step: Tensor


def training(seed: int, step: int = 0, width: int = 3) -> Training:
    """A state whose every number follows from seed and step."""
    source = torch.Generator().manual_seed(1000 * seed + step)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=source)

    return Training(
        params={"layer.weight": draw(width, 2), "layer.bias": draw(2)},
        frozen={"embedding.weight": draw(4)},
        buffers={"norm.mean": draw(2), "rope": draw(2), "norm.count": torch.tensor(5)},
        optimizer=(Moments(first={"layer.weight": draw(3)}, count=torch.tensor(step)),),
        scale=None,
        key=torch.tensor([0, seed]),
        step=torch.tensor(step),
    )


def snapshot(step: int = 10, seed: int = 0, **changes: Any) -> Snapshot:
    """A snapshot with something in each of its fields."""
    fields: dict[str, Any] = {
        "run_id": f"run-{seed}",
        "step": step,
        "state": training(seed, step),
        "values": {"cursor": {"seed": seed, "step": step}, "loss": float("nan")},
        "tensors": {"generator": torch.arange(5 + seed)},
        "hub_config": {"model_type": "made-up", "seed": seed},
        "transient": frozenset({"rope"}),
        "validation_loss": 1.5,
    }
    return Snapshot(**(fields | changes))


def same_bits(one: Any, other: Any) -> bool:
    """Whether two trees have the same paths, dtypes, shapes and bits."""
    left, right = named_leaves(one), named_leaves(other)
    return left.keys() == right.keys() and all(
        _plain(left[path]) == _plain(right[path]) for path in left
    )


def _plain(leaf: Any) -> object:
    if not isinstance(leaf, Tensor):
        return leaf
    data = leaf.contiguous().reshape(-1).view(torch.uint8)
    return leaf.dtype, leaf.shape, bytes(data.numpy())
