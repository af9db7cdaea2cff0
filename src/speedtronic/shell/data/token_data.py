"""Token sources as training data: packed rows to train on, held-out rows in order."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from speedtronic.pure.data.position import Cursor
from speedtronic.shell.data.base import StepBatch
from speedtronic.shell.data.collate import Batch
from speedtronic.shell.data.numbers import Array
from speedtronic.shell.data.row_order import RowOrder, Schedule
from speedtronic.shell.data.rows import IGNORE, Rows, Tokens, batch_of, read_windows
from speedtronic.shell.data.tokenizers import ByteTokenizer, Tokenizer

_DECODED_TOGETHER = 2**16  # tokens


class TokenData:
    """Mixed token sources; a `Data`.

    Args:
        sources: what to train on, cut into rows.
        weights: of the sources.
        held_out: what to validate with.
        tokenizer: the one that made the tokens, or None.
        block: positions per row.
        schedule: how rows are taken.
        fingerprint: of the contents.
        notes: what the user should be told.
    """

    exact = True
    inexact_because: str | None = None
    threaded = True

    def __init__(
        self,
        sources: Sequence[Rows],
        weights: Sequence[float],
        held_out: Sequence[Tokens],
        *,
        tokenizer: Tokenizer | None,
        vocab_size: int,
        block: int,
        schedule: Schedule,
        fingerprint: str,
        notes: Sequence[str],
    ) -> None:
        self._sources, self._held_out, self._block = sources, held_out, block
        self._order = RowOrder(sources, weights, schedule)
        self.tokenizer = tokenizer
        self.vocab_size: int | None = vocab_size
        self.fingerprint, self.notes = fingerprint, tuple(notes)
        self.has_validation = bool(held_out)

    def train_batch(self, step: int) -> StepBatch:
        """The micro-batches of this rank in a step."""
        batches, samples, tokens = [], 0, 0
        for places in self._order.micro_batches(step):
            inputs, labels = self._read(places.source, places.address)
            samples += len(labels)
            tokens += int(np.count_nonzero(labels != IGNORE))
            batches.append(batch_of(inputs, labels))
        return StepBatch(tuple(batches), samples, tokens)

    def steps(self, first: int) -> Iterator[StepBatch]:
        """The steps from ``first`` on, without end."""
        while True:
            yield self.train_batch(first)
            first += 1

    def validation_batches(self, batch_size: int) -> Iterator[Batch]:
        """The held-out rows, in order; the last row of a source is filled with -100.

        Only the last batch of each source may be short.
        """
        for tokens in self._held_out:
            starts = np.arange(tokens.first, tokens.stop - 1, self._block)
            for at in range(0, len(starts), batch_size):
                yield self._validation_batch(tokens, starts[at : at + batch_size])

    def bytes_per_token(self) -> float | None:
        """Mean bytes of text per validation target; None if some are ignored."""
        held_out, tokenizer = self._held_out, self.tokenizer
        if (
            tokenizer is None
            or not held_out
            or any(t.mask is not None for t in held_out)
        ):
            return None
        if isinstance(tokenizer, ByteTokenizer) and tokenizer.end_of_document is None:
            return 1.0
        targets = sum(len(tokens) - 1 for tokens in held_out)
        return sum(_text_bytes(t, tokenizer) for t in held_out) / targets

    def state_dict(self, step: int) -> dict[str, Any]:
        """The cursor at the start of ``step``."""
        return attrs.asdict(self._order.cursor(step))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a cursor."""
        self._order.go_on(Cursor(**state))

    def close(self) -> None:
        """Nothing to release: mappings end with the object."""

    def _read(self, source: Array, address: Array) -> tuple[Array, Array]:
        if len(self._sources) == 1:
            return self._sources[0].read(address)
        inputs = np.empty((len(source), self._block), np.int64)
        labels = np.empty_like(inputs)
        for number in np.unique(source):
            mine = source == number
            inputs[mine], labels[mine] = self._sources[number].read(address[mine])
        return inputs, labels

    def _validation_batch(self, tokens: Tokens, starts: Array) -> Batch:
        inputs = np.zeros((len(starts), self._block), np.int64)
        labels = np.full_like(inputs, IGNORE)
        whole = starts + self._block < tokens.stop
        inputs[whole], labels[whole] = read_windows(tokens, starts[whole], self._block)
        rest = tokens.stop - 1 - int(starts[-1])
        if rest < self._block:
            last = read_windows(tokens, starts[-1:], rest)
            inputs[-1:, :rest], labels[-1:, :rest] = last
        return batch_of(inputs, labels)


def fingerprint_of(parts: Sequence[Any]) -> str:
    """A hash of JSON values that say what data holds."""
    told = json.dumps(list(parts), sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _text_bytes(tokens: Tokens, tokenizer: Tokenizer) -> int:
    """Bytes of text of the targets, decoded document by document."""
    inside = tokens.ends[(tokens.ends > tokens.first + 1) & (tokens.ends < tokens.stop)]
    bounds = [tokens.first + 1, *inside.tolist(), tokens.stop]
    total = 0
    for first, stop in zip(bounds[:-1], bounds[1:], strict=True):
        for at in range(first, stop, _DECODED_TOGETHER):
            end = min(stop, at + _DECODED_TOGETHER)
            ids = tokens.ids.windows(np.array([at]), end - at)[0].tolist()
            ids = ids[:-1] if ids[-1] == tokenizer.end_of_document else ids
            total += len(tokenizer.decode(ids).encode())
    return total
