"""Laws of drawing a token."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from speedtronic.pure.random import key_from_seed
from speedtronic.pure.sample import sample
from speedtronic.testing.purity import check_pure

rows = st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=12)
seeds = st.integers(0, 2**40)
temperatures = st.sampled_from([0.0, 0.01, 1.0, 100.0])
bounds = st.none() | st.integers(1, 15)


@given(rows, seeds, temperatures, bounds)
def test_a_token_is_a_function_of_the_key(
    row: list[float], seed: int, temperature: float, top_k: int | None
) -> None:
    """The same key gives the same token, one that the bound allows."""
    logits = torch.tensor(row)

    def draw(logits: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return sample(logits, key, temperature=temperature, top_k=top_k)

    key = key_from_seed(seed)
    token = check_pure(draw, logits, key)
    assert token == draw(logits, key)
    assert (logits > logits[token]).sum() < (top_k or len(row))


@given(rows, seeds)
def test_one_candidate_is_the_likeliest(row: list[float], seed: int) -> None:
    """``top_k`` of 1 and a temperature of 0 leave no choice."""
    logits, key = torch.tensor(row), key_from_seed(seed)

    for options in ({"top_k": 1}, {"temperature": 0.0}):
        assert logits.max() == logits[sample(logits, key, **options)]


@given(st.integers(1, 5), st.integers(1, 9), seeds)
def test_rows_are_independent_of_each_others_logits(
    count: int, vocab: int, seed: int
) -> None:
    """A row's token depends on its own logits and its place only."""
    key = key_from_seed(seed)
    source = torch.Generator().manual_seed(seed % 2**32)
    logits = torch.randn(count, vocab, generator=source)
    changed = torch.cat([logits[:1], logits[1:].flip(-1) * 3])

    assert sample(logits, key)[0] == sample(changed, key)[0]
