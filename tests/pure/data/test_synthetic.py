"""The made-up stream."""

import torch

from speedtronic.pure.data.synthetic import RUN, synthetic_tokens
from speedtronic.pure.random import key_from_seed
from speedtronic.testing.purity import check_pure


def test_ids_are_below_the_vocabulary() -> None:
    """Every id is in the vocabulary, and all of a small one are used."""
    ids = synthetic_tokens(torch.arange(5000), 11, key_from_seed(0))

    assert set(range(11)) == set(ids.tolist())


def test_a_token_is_a_function_of_its_place() -> None:
    """A token read alone is the one read among others."""
    key = key_from_seed(4)
    together = synthetic_tokens(torch.arange(200), 50, key)

    assert int(together[150]) == int(synthetic_tokens(torch.tensor(150), 50, key))


def test_it_can_be_learned() -> None:
    """Inside a run the next token follows from the last two."""
    ids = synthetic_tokens(torch.arange(RUN), 97, key_from_seed(2))

    assert 1 == len(set(((ids[1:] - ids[:-1]) % 97).tolist()))


def test_it_is_pure() -> None:
    """No input is written."""
    check_pure(synthetic_tokens, torch.arange(5), 10, key_from_seed(0))
