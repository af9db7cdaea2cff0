"""Noise of samples as a function of their place."""

import random

import numpy as np
import pytest
import torch

from speedtronic.errors import DataError
from speedtronic.shell.data.seeded import generators_kept, make_sample


def noise() -> tuple[float, float, float]:
    """One number from each global generator."""
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_a_seed_gives_the_noise() -> None:
    """The same seed gives the same sample whatever was drawn before."""
    with generators_kept():
        first = make_sample(noise, 2**62 + 1, "x")
        noise()
        again = make_sample(noise, 2**62 + 1, "x")
        other = make_sample(noise, 2**62 + 2, "x")

    assert first == again
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_the_generators_are_put_back() -> None:
    """Making samples draws nothing from them."""
    with generators_kept():
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        expected = noise()
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        with generators_kept():
            make_sample(noise, 7, "x")

        assert expected == noise()


def test_a_failing_sample_is_named() -> None:
    """The error says which sample, and what was raised."""

    def fail() -> None:
        raise KeyError("label")

    with (
        generators_kept(),
        pytest.raises(DataError, match="cats: sample 3: KeyError: 'label'"),
    ):
        make_sample(fail, 0, "cats: sample 3")
