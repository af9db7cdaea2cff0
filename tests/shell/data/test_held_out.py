"""Held-out samples."""

from typing import Any

import pytest
from tests.shell.data.factories import Counted, Squares

from speedtronic.errors import DataError
from speedtronic.pure.random import key_from_seed
from speedtronic.shell.data.held_out import held_out_batches


def batches(samples: Any, size: int = 4) -> list[Any]:
    """Batches as lists."""
    found = held_out_batches(samples, "pictures", key_from_seed(0), size)
    return [
        [x.tolist() for x in batch] if isinstance(batch, tuple) else batch.tolist()
        for batch in found
    ]


def test_by_number_and_by_turn() -> None:
    """All samples in order, the last batch short."""
    assert [[0, 1, 2, 3], [4, 5]] == batches(Counted(6))
    assert [[0, 1, 2, 3], [4, 5]] == [numbers for numbers, _ in batches(Squares(6))]
    assert [] == batches(None)


def test_noise_is_the_same_every_time() -> None:
    """An evaluation repeats itself, and does not depend on the batch size."""
    noisy = Squares(4, noisy=True)

    assert batches(noisy) == batches(noisy)
    assert batches(noisy, 4)[0][1] == [row for b in batches(noisy, 1) for row in b[1]]


def test_a_broken_sample() -> None:
    """It is named as one of validation."""
    with pytest.raises(DataError, match=r"pictures \(validation\): sample 2: Runtime"):
        batches(Squares(4, broken=2))
