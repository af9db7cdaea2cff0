"""An iterable dataset as training data: what comes next, shared out in turn.

Every rank of every node iterates over the whole dataset and keeps each n-th sample, n
being the number of ranks of all nodes, so that no sample is read twice and none is
left out. When it ends it is iterated again. Steps come in order; the last one that was
read may be asked for again.

Resuming is exact if the dataset offers ``state_dict`` and ``load_state_dict``, whose
values must be JSON. If not, a resumed run passes over as many samples as it had read,
which is the same only if iterating gives the same again; `exact` is False then.
"""

import json
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from speedtronic.errors import DataError
from speedtronic.pure.random import fold_in
from speedtronic.shell.data.base import StepBatch
from speedtronic.shell.data.collate import Batch, collate, count_rows, count_tokens
from speedtronic.shell.data.held_out import held_out_batches
from speedtronic.shell.data.row_order import Schedule
from speedtronic.shell.data.seeded import generators_kept, make_sample, seed_of
from speedtronic.shell.data.tokenizers import Tokenizer

_NOISE = 0x17E2


class IterableData:
    """A dataset with ``__iter__`` only; a `Data`.

    Args:
        samples: to train on.
        held_out: an iterable or a sequence to validate with, or None.
        name: what to call the dataset.
        schedule: how samples are shared out.
        tokenizer: only passed on.
        vocab_size: only passed on.
        limit: of token ids, as in `collate`.
        fingerprint: of the dataset, as far as it can be known.
        notes: what the user should be told.
    """

    threaded = False

    def __init__(
        self,
        samples: Any,
        held_out: Any,
        *,
        name: str,
        schedule: Schedule,
        tokenizer: Tokenizer | None,
        vocab_size: int | None,
        limit: tuple[str, int] | None = None,
        fingerprint: str,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._samples, self._held_out, self._name = samples, held_out, name
        self._schedule = schedule
        share = schedule.share
        self._readers = share.nodes * schedule.ranks
        self._reader = share.node * schedule.ranks + schedule.rank
        self._noise: Tensor = fold_in(schedule.key, _NOISE)
        self._iterator: Iterator[Any] | None = None
        self._step, self._read = 0, 0  # the next step, and samples passed in all
        self._read_now = 0  # samples passed since the iteration began
        self._last: tuple[StepBatch, dict[str, Any]] | None = None
        self.exact = all(
            hasattr(samples, name) for name in ("state_dict", "load_state_dict")
        )
        self.inexact_because = (
            None
            if self.exact
            else f"{name} has no state_dict and load_state_dict: a resumed run passes "
            "over what it had read, which repeats only if iterating does"
        )
        self.tokenizer, self.vocab_size = tokenizer, vocab_size
        self._limit = limit
        self.fingerprint, self.notes = fingerprint, notes
        self.has_validation = held_out is not None

    def train_batch(self, step: int) -> StepBatch:
        """The micro-batches of this rank in a step: the next one, or the last again.

        Raises:
            DataError: the dataset fails, or is empty.
            ValueError: ``step`` is another one.
        """
        if self._last is not None and step == self._step - 1:
            return self._last[0]
        if step != self._step:
            raise ValueError(f"{self._name} comes in order: next is {self._step}")
        before = self._state()
        batch = self._read_step()
        self._step += 1
        self._last = batch, before
        return batch

    def steps(self, first: int) -> Iterator[StepBatch]:
        """The steps from ``first`` on, without end."""
        while True:
            yield self.train_batch(first)
            first += 1

    def validation_batches(self, batch_size: int) -> Iterator[Batch]:
        """The held-out samples in order; the last batch may be short."""
        return held_out_batches(
            self._held_out, self._name, self._noise, batch_size, self._limit
        )

    def bytes_per_token(self) -> float | None:
        """Unknown: samples are not text."""
        return None

    def state_dict(self, step: int) -> dict[str, Any]:
        """The position at the start of the next step, or of the last one.

        Raises:
            DataError: the dataset's own state is not JSON.
            ValueError: ``step`` is another one.
        """
        if self._last is not None and step == self._step - 1:
            return self._last[1]
        if step != self._step:
            raise ValueError(f"{self._name} stands at step {self._step}, not {step}")
        return self._state()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a position, which may be that of another rank of the node."""
        self._step, self._last = state["step"], None
        self._read, self._read_now = state["read"], state["read_now"]
        passed = 0 if self.exact else self._read_now
        self._iterator = None
        if self.exact:
            self._samples.load_state_dict(state["dataset"])
            self._iterator = iter(self._samples)
        self._read -= passed
        # A reader stops at its own last sample; those after it were read by others.
        passed += -(self._read + passed) % self._readers
        with generators_kept():
            for _ in range(passed):
                self._next_of_all()

    def close(self) -> None:
        """End the iteration."""
        self._iterator = None

    def _state(self) -> dict[str, Any]:
        state = {"step": self._step, "read": self._read, "read_now": self._read_now}
        if not self.exact:
            return state
        own = self._samples.state_dict()
        try:
            return {**state, "dataset": json.loads(json.dumps(own))}
        except (TypeError, ValueError) as error:
            told = f"{self._name}: its state_dict is not JSON: {error}"
            raise DataError(told) from None

    def _read_step(self) -> StepBatch:
        plan = self._schedule
        count = plan.step_rows // plan.micro_rows // plan.ranks
        with generators_kept():
            rows = [
                [self._next() for _ in range(plan.micro_rows)] for _ in range(count)
            ]
        batches = [collate(row, self._name, self._limit) for row in rows]
        samples = sum(count_rows(batch) for batch in batches)
        tokens = sum(count_tokens(batch) for batch in batches)
        return StepBatch(tuple(batches), samples, tokens)

    def _next(self) -> Any:
        """This reader's next sample; those of the others are passed over."""
        while True:
            mine = self._read % self._readers == self._reader
            sample = self._next_of_all()
            if mine:
                return sample

    def _next_of_all(self) -> Any:
        where = f"{self._name}: sample {self._read}"
        for _ in range(2):
            if self._iterator is None:
                self._iterator, self._read_now = iter(self._samples), 0
            seed = seed_of(fold_in(self._noise, self._read))
            try:
                sample = make_sample(self._iterator.__next__, seed, where)
            except StopIteration:
                self._iterator = None
                continue
            self._read += 1
            self._read_now += 1
            return sample
        raise DataError(f"{self._name} gave no sample")
