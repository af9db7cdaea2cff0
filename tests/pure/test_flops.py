"""Operations per token, and the share of a peak."""

import pytest

from speedtronic.pure.config import Config, Data, Model
from speedtronic.pure.flops import (
    flops_per_token,
    transformer_flops_per_token,
    utilization,
)
from speedtronic.pure.transformer import Transformer

SIZES = {"vocab_size": 50, "n_layer": 2, "n_head": 4, "n_kv_head": 2, "d_model": 32}


@pytest.mark.parametrize("tied", [True, False])
def test_the_count_follows_from_the_sizes(tied: bool) -> None:
    """Six per weight in a product, and twelve per layer, width and position."""
    model = Transformer(**SIZES, tie_weights=tied)  # type: ignore[arg-type]
    matrices = sum(p.numel() for p in model.parameters() if p.ndim == 2)
    weights = matrices if tied else matrices - 50 * 32  # a look-up is no product
    told = Model(**SIZES, tie_weights=tied)  # type: ignore[arg-type]

    expected = 6 * weights + 12 * 2 * 32 * 128
    assert expected == transformer_flops_per_token(told, sequence=128)


@pytest.mark.parametrize(("block", "expected"), [(None, 64), (16, 16)])
def test_attention_spans_the_rows_of_the_data(block: int | None, expected: int) -> None:
    """They may be shorter than the model allows."""
    model = Model(**SIZES, max_seq_len=64)  # type: ignore[arg-type]
    config = Config(model=model, data=Data(block_size=block))

    by_hand = transformer_flops_per_token(model, expected)
    assert by_hand == flops_per_token(config, parameters=0)


def test_other_models_cost_six_per_parameter() -> None:
    """All that is known of them."""
    config = Config(model=Model(name="tiny:build"))

    assert 600 == flops_per_token(config, parameters=100)


def test_a_model_at_the_peak_has_a_share_of_one() -> None:
    """Half the tokens, half the share."""
    assert 1.0 == utilization(10.0, 6, peak_flops=60.0)
    assert 0.5 == utilization(5.0, 6, peak_flops=60.0)
