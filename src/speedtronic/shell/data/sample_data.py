"""A map-style dataset as training data: samples by number, in a keyed order.

Samples are made in the thread that asks, because making one may draw from the global
generators, or in worker processes. Neither changes a sample (see `seeded`).
"""

import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import attrs
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from speedtronic.errors import DataError
from speedtronic.pure.data.position import Cursor
from speedtronic.pure.random import fold_in
from speedtronic.shell.data.base import StepBatch
from speedtronic.shell.data.collate import Batch, collate, count_rows, count_tokens
from speedtronic.shell.data.held_out import held_out_batches
from speedtronic.shell.data.row_order import Places, RowOrder, Schedule
from speedtronic.shell.data.seeded import generators_kept, make_sample, seed_of
from speedtronic.shell.data.tokenizers import Tokenizer

_NOISE = 0x5A3B1E  # separates the samples' noise from their order
_Request = list[tuple[int, int]]  # sample number and seed


@attrs.frozen
class _Failure:
    """What went wrong in a worker process."""

    problems: list[str]


class Loader(Dataset[Any]):
    """Makes whole micro-batches; this is what worker processes hold."""

    def __init__(self, samples: Any, name: str, limit: tuple[str, int] | None) -> None:
        self._samples, self._name, self._limit = samples, name, limit

    def __getitem__(self, request: _Request) -> Batch:
        """A batch, or a failure: an error's own message survives the process."""
        try:
            return self.load(request)
        except DataError as error:
            return _Failure(error.problems)

    def load(self, request: _Request) -> Batch:
        """A batch.

        Raises:
            DataError: a sample cannot be made, or samples do not fit together.
        """
        with generators_kept():
            made = [
                make_sample(
                    partial(self._samples.__getitem__, number),
                    seed,
                    f"{self._name}: sample {number}",
                )
                for number, seed in request
            ]
        return collate(made, self._name, self._limit)


class _Numbered:
    """Samples as rows: the address of a row is its number."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def address(self, row: Tensor, epoch: Tensor, key: Tensor) -> Tensor:
        """The number of the sample, i64[n, 1]."""
        del epoch, key
        return row.unsqueeze(-1)


class SampleData:
    """A dataset with ``__len__`` and ``__getitem__``; a `Data`.

    Args:
        samples: to train on.
        held_out: to validate with, or None.
        name: what to call the dataset.
        schedule: how samples are taken.
        workers: processes that make samples; 0 for none.
        ahead: steps that workers make ahead.
        tokenizer: only passed on.
        vocab_size: only passed on.
        limit: of token ids, as in `collate`.
        fingerprint: of the dataset, as far as it can be known.
        notes: what the user should be told.
    """

    exact = True
    inexact_because: str | None = None
    threaded = False

    def __init__(
        self,
        samples: Any,
        held_out: Any,
        *,
        name: str,
        schedule: Schedule,
        workers: int,
        ahead: int,
        tokenizer: Tokenizer | None,
        vocab_size: int | None,
        limit: tuple[str, int] | None = None,
        fingerprint: str,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._loader = Loader(samples, name, limit)
        self._held_out, self._name = held_out, name
        self._order = RowOrder([_Numbered(len(samples))], [1.0], schedule)
        self._noise = fold_in(schedule.key, _NOISE)
        self._workers, self._ahead = workers, ahead
        self.tokenizer, self.vocab_size = tokenizer, vocab_size
        self._limit = limit
        self.fingerprint, self.notes = fingerprint, notes
        self.has_validation = held_out is not None

    def train_batch(self, step: int) -> StepBatch:
        """The micro-batches of this rank in a step."""
        return _step_batch([self._loader.load(r) for r in self._requests(step)])

    def steps(self, first: int) -> Iterator[StepBatch]:
        """The steps from ``first`` on, made by workers if there are some."""
        if self._workers == 0:
            while True:
                yield self.train_batch(first)
                first += 1
        size = len(self._requests(first))
        batches = iter(self._start_workers(first, size * self._ahead))
        while True:
            made = [next(batches) for _ in range(size)]
            for batch in made:
                if isinstance(batch, _Failure):
                    raise DataError(batch.problems)
            yield _step_batch(made)

    def validation_batches(self, batch_size: int) -> Iterator[Batch]:
        """The held-out samples in order; the last batch may be short."""
        return held_out_batches(
            self._held_out, self._name, self._noise, batch_size, self._limit
        )

    def bytes_per_token(self) -> float | None:
        """Unknown: samples are not text."""
        return None

    def state_dict(self, step: int) -> dict[str, Any]:
        """The cursor at the start of ``step``."""
        return attrs.asdict(self._order.cursor(step))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a cursor."""
        self._order.go_on(Cursor(**state))

    def close(self) -> None:
        """Nothing to release: workers end with the iterator that has them."""

    def _requests(self, step: int) -> list[_Request]:
        return [self._request(places) for places in self._order.micro_batches(step)]

    def _request(self, places: Places) -> _Request:
        walked = torch.from_numpy(places.walked)
        keys = fold_in(self._noise.expand(len(walked), 2), walked)
        numbers = places.address[:, 0].tolist()
        return [(n, seed_of(key)) for n, key in zip(numbers, keys, strict=True)]

    def _start_workers(self, first: int, ahead: int) -> "DataLoader[Any]":
        return DataLoader(
            self._loader,
            batch_size=None,
            sampler=_Requests(self, first),
            num_workers=self._workers,
            prefetch_factor=-(-ahead // self._workers),
            collate_fn=_as_it_is,
            worker_init_fn=_leave_interrupts,
            generator=torch.Generator(),  # else it draws from the global one
        )


class _Requests:
    """The requests of all steps from one on, without end."""

    def __init__(self, data: SampleData, first: int) -> None:
        self._data, self._first = data, first

    def __iter__(self) -> Iterator[_Request]:
        step = self._first
        while True:
            yield from self._data._requests(step)
            step += 1


def _as_it_is(batch: Batch) -> Batch:
    return batch


def _leave_interrupts(worker: int) -> None:
    """Ctrl-C reaches the whole group of processes; the first one decides."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _step_batch(batches: list[Batch]) -> StepBatch:
    samples = sum(count_rows(batch) for batch in batches)
    tokens = sum(count_tokens(batch) for batch in batches)
    return StepBatch(tuple(batches), samples, tokens)
