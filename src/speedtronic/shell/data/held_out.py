"""Held-out samples as batches, in order, each once."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

from torch import Tensor

from speedtronic.pure.random import fold_in
from speedtronic.shell.data.collate import Batch, collate
from speedtronic.shell.data.datasets import is_indexed
from speedtronic.shell.data.seeded import generators_kept, make_sample, seed_of

_NOISE = 0x4E1D  # separates the noise of held-out samples from that of others


def held_out_batches(
    samples: Any,
    name: str,
    key: Tensor,
    size: int,
    limit: tuple[str, int] | None = None,
) -> Iterator[Batch]:
    """Batches of ``size`` samples; the last one may be short.

    Args:
        samples: by number or by iteration; None for no samples at all.
        name: what to call the dataset.
        key: i64[2]; a sample's noise follows from it and from the sample's place.
        size: samples per batch.
        limit: of token ids, as in `collate`.

    Raises:
        DataError: a sample cannot be made, or samples do not fit together.
    """
    if samples is None:
        return
    makers = _by_number(samples) if is_indexed(samples) else _by_turn(samples)
    name, key = f"{name} (validation)", fold_in(key, _NOISE)
    row: list[Any] = []
    for number, make in enumerate(makers):
        seed, where = seed_of(fold_in(key, number)), f"{name}: sample {number}"
        try:
            with generators_kept():
                row.append(make_sample(make, seed, where))
        except StopIteration:
            break
        if len(row) == size:
            yield collate(row, name, limit)
            row = []
    if row:
        yield collate(row, name, limit)


def _by_number(samples: Any) -> Iterator[Callable[[], Any]]:
    return (partial(samples.__getitem__, number) for number in range(len(samples)))


def _by_turn(samples: Any) -> Iterator[Callable[[], Any]]:
    return repeat(iter(samples).__next__)
