"""Tokens drawn from logits."""

import pytest
import torch

from speedtronic.pure.random import key_from_seed, split
from speedtronic.pure.sample import sample
from speedtronic.testing.purity import check_pure

LOGITS = torch.tensor([0.0, 1.0, 2.0, 3.0])


def counts(num: int = 4000, **options: float | int | None) -> torch.Tensor:
    """How often each token comes, as shares."""
    rows = LOGITS.expand(num, 4)
    tokens = sample(rows, key_from_seed(0), **options)  # type: ignore[arg-type]
    return torch.bincount(tokens, minlength=4) / num


def test_shares_are_the_softmax() -> None:
    """Within five standard errors of the probabilities."""
    for temperature in (0.5, 1.0, 2.0):
        expected = (LOGITS / temperature).softmax(-1)
        error = (expected * (1 - expected) / 4000).sqrt()
        assert ((counts(temperature=temperature) - expected).abs() < 5 * error).all()


def test_top_k_renormalises() -> None:
    """Tokens outside the best two never come, the others by their odds."""
    shares = counts(top_k=2)
    expected = LOGITS[2:].softmax(-1)

    assert [0, 0] == shares[:2].tolist()
    torch.testing.assert_close(shares[2:], expected, rtol=0, atol=0.04)


def test_ties_do_not_widen_top_k() -> None:
    """With equal logits exactly ``top_k`` tokens can come."""
    tokens = sample(torch.zeros(1000, 6), key_from_seed(1), top_k=2)

    assert 2 == len(tokens.unique())


def test_temperature_zero_ignores_the_key() -> None:
    """The most likely token, from any key and with any ``top_k``."""
    keys = split(key_from_seed(2), 5)

    assert {3} == {int(sample(LOGITS, k, temperature=0.0, top_k=2)) for k in keys}


def test_the_key_decides() -> None:
    """Equal keys agree, different keys do not always; nothing else is drawn from."""
    rows = torch.zeros(50, 4)
    first, second = split(key_from_seed(3), 2)
    drawn = check_pure(sample, rows, first)

    assert torch.equal(drawn, sample(rows, first))
    assert not torch.equal(drawn, sample(rows, second))


def test_top_k_beyond_the_vocabulary_is_all_of_it() -> None:
    """As without ``top_k``."""
    assert torch.equal(counts(top_k=99), counts())


@pytest.mark.parametrize("options", [{"temperature": -1.0}, {"top_k": 0}])
def test_impossible_options(options: dict[str, float]) -> None:
    """The message shows the value."""
    (value,) = options.values()
    with pytest.raises(ValueError, match=f"got {value}"):
        sample(LOGITS, key_from_seed(0), **options)  # type: ignore[arg-type]
