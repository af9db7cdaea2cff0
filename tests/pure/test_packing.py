"""Sums of several ranks as one vector, and their order."""

import functools

import pytest
import torch
from torch import Tensor

from speedtronic.pure.inner import Accumulated, add_accumulated
from speedtronic.pure.packing import add_parts, pack, unpack
from speedtronic.pure.tree import named_leaves


def share(seed: int, count: float = 3.0) -> Accumulated:
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw)

    names = ["b", "a"] if seed % 2 else ["a", "b"]  # filled in another order
    sizes = {"a": (5, 3), "b": (17,)}
    return Accumulated(
        grads={name: normal(*sizes[name]) for name in names},
        loss_sum=normal(),
        count=torch.tensor(count),
        metrics={"accuracy": normal()},
        buffers={"mean": normal(2)},
    )


def exchanged(shares: list[Accumulated]) -> list[Accumulated]:
    """What every rank ends up with, as if the parts had been sent."""
    ranks = len(shares)
    packed = torch.stack([pack(total, ranks) for total in shares])
    counts = torch.stack([total.count for total in shares])
    sums = [add_parts(packed[:, part], counts) for part in range(ranks)]
    return [unpack(torch.cat(sums), total) for total in shares]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_the_sum_has_the_bits_of_one_process(ranks: int) -> None:
    """Which adds the shares one after the other."""
    shares = [share(seed) for seed in range(ranks)]
    expected = named_leaves(functools.reduce(add_accumulated, shares))

    for total, own in zip(exchanged(shares), shares, strict=True):
        found = named_leaves(total)
        for path in expected:
            if ".buffers" not in path:
                assert torch.equal(expected[path], found[path]), path
        assert own.buffers is total.buffers
        assert list(own.grads) == list(total.grads)


def test_a_share_without_targets_adds_nothing() -> None:
    """Its numbers may be NaN."""
    empty = share(1, count=0.0)
    empty.grads["a"][:] = torch.nan
    full = share(0)
    for shares in ([full, empty], [empty, full]):
        total = exchanged(shares)[0]

        assert torch.equal(full.grads["a"], total.grads["a"])
        assert torch.equal(full.count, total.count)


def test_tensors_begin_at_64_bytes() -> None:
    """Kernels are faster so."""
    total = exchanged([share(0), share(1)])[0]
    for tensor in total.grads.values():
        assert 0 == tensor.storage_offset() % 16
