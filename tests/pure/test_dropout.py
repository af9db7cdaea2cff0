"""Dropout as a function of a key."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from speedtronic.pure.dropout import (
    KeyedFunctions,
    keyed_alpha_dropout,
    keyed_copy,
    keyed_dropout,
)
from speedtronic.pure.random import key_from_seed

KEY = key_from_seed(9)


def test_the_mean_is_kept() -> None:
    """A fifth is dropped, the rest grows by a quarter."""
    y = keyed_dropout(KEY, torch.ones(100_000), 0.2)

    assert {0.0, 1.25} == set(y.tolist())
    assert abs(float(y.mean()) - 1) < 0.01


def test_whole_channels_share_a_draw() -> None:
    """As dropout of images does."""
    y = keyed_dropout(KEY, torch.ones(8, 16, 5, 5), 0.5, shared=2)

    assert torch.equal(y, y[:, :, :1, :1].expand_as(y))


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    """Of standard normal activations."""
    x = torch.randn(200_000, generator=torch.Generator().manual_seed(0))
    y = keyed_alpha_dropout(KEY, x, 0.3)

    assert abs(float(y.mean())) < 0.02 and abs(float(y.var()) - 1) < 0.02


@pytest.mark.parametrize("drop", [keyed_dropout, keyed_alpha_dropout])
def test_a_rate_of_one_leaves_zeros(drop) -> None:  # type: ignore[no-untyped-def]
    """No division by zero."""
    assert torch.equal(torch.zeros(3), drop(KEY, torch.ones(3), 1.0))


@pytest.mark.parametrize(
    ("module", "shared"),
    [(nn.Dropout(0.1), 0), (nn.Dropout1d(0.1), 1), (nn.Dropout2d(0.1), 2)],
    ids=["0", "1", "2"],
)
def test_dropout_modules_have_stand_ins(module: nn.Module, shared: int) -> None:
    """With the same rate and sharing."""
    stand_in = keyed_copy(module)

    assert stand_in is not None
    assert (0.1, shared) == (stand_in.rate, stand_in.shared)


def test_other_modules_have_none() -> None:
    """They run as they are."""
    assert keyed_copy(nn.Linear(1, 1)) is None


@pytest.mark.parametrize("grouped", [False, True])
def test_attention_without_dropped_weights_is_the_usual_one(grouped: bool) -> None:
    """The explicit form, at a rate so small that nothing is dropped."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 4, 5, 8, generator=generator)
    k, v = torch.randn(2, 2, 2 if grouped else 4, 5, 8, generator=generator)
    expected = F.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=grouped
    )
    with KeyedFunctions(KEY) as mode:
        found = F.scaled_dot_product_attention(
            q, k, v, dropout_p=1e-9, is_causal=True, enable_gqa=grouped
        )

    assert 1 == mode.seen
    torch.testing.assert_close(expected, found)
