"""Samples whose noise is a function of their position.

A dataset may draw from the global generators of `random`, NumPy and torch. While a
sample is made they are seeded from its place in the order, and afterwards they are
what they were: the same place gives the same sample, whatever was drawn before, in
this process or in a worker. Generators that a dataset seeds itself are its own.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from speedtronic.errors import DataError, UserError

T = TypeVar("T")


@contextmanager
def generators_kept() -> Iterator[None]:
    """Put the three global generators back afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    pytorch = torch.default_generator.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.default_generator.set_state(pytorch)


def seed_of(key: Tensor) -> int:
    """An integer below 2**63 from a key, i64[2].

    >>> seed_of(torch.tensor([1, 5]))
    4294967301
    """
    high, low = key.tolist()
    return int((high << 32 | low) & (2**63 - 1))


def make_sample(make: Callable[[], T], seed: int, where: str) -> T:
    """Call ``make`` with seeded generators; use it inside `generators_kept`.

    Args:
        make: makes one sample.
        seed: below 2**63.
        where: names the sample.

    Raises:
        DataError: whatever went wrong, with the name of the sample. StopIteration
            passes.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)
    try:
        return make()
    except (StopIteration, UserError):
        raise
    except Exception as error:
        raise DataError(f"{where}: {type(error).__name__}: {error}") from error
