"""Randomness from keys."""

import pytest
import torch

from speedtronic.pure.random import bits, fold_in, key_from_seed, split, uniform

KEY = key_from_seed(42)


def test_the_bits_of_a_key_never_change() -> None:
    """A run of last year draws the same masks today."""
    assert [3229557578, 4231894153, 1060052415] == bits(KEY, (3,)).tolist()


def test_all_words_have_32_bits() -> None:
    """Nothing overflows into the sign."""
    words = bits(fold_in(KEY, 2**62 + 5), (10_000,))

    assert 0 <= int(words.min()) and int(words.max()) < 2**32


def test_keys_of_different_data_differ() -> None:
    """Low and high words count separately."""
    keys = fold_in(KEY, torch.tensor([0, 1, 2**32, 2**32 + 1]))

    assert 4 == len({tuple(key) for key in keys.tolist()})


def test_every_input_bit_moves_half_of_the_output() -> None:
    """Avalanche, within five standard deviations of a fair coin."""
    data = torch.arange(2000)
    for bit in (0, 7, 31, 40):
        moved = fold_in(KEY, data) ^ fold_in(KEY, data ^ (1 << bit))
        ones = sum(word.bit_count() for word in moved.flatten().tolist())
        total = 2000 * 64
        assert abs(ones - total / 2) < 5 * (total / 4) ** 0.5


def test_split_keys_are_independent() -> None:
    """Their numbers are not correlated."""
    first, second = (uniform(key, (100_000,)) for key in split(KEY, 2))

    assert abs(float(torch.corrcoef(torch.stack([first, second]))[0, 1])) < 0.02


def test_uniform_numbers_are_uniform() -> None:
    """Counts in ten bins, within five standard deviations."""
    counts = torch.histc(uniform(KEY, (100_000,)), bins=10, min=0, max=1)

    assert float((counts - 10_000).abs().max()) < 5 * (100_000 * 0.09) ** 0.5


def test_vmap_and_a_loop_agree() -> None:
    """One mask per key."""
    keys = split(KEY, 3)
    batched = torch.vmap(lambda key: uniform(key, (4,)))(keys)

    assert torch.equal(torch.stack([uniform(key, (4,)) for key in keys]), batched)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    """The message names the range."""
    with pytest.raises(ValueError, match="seed must be in"):
        key_from_seed(seed)
