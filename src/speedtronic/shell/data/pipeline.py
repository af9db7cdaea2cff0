"""From a config to the batches of every step."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import attrs
import numpy as np

from speedtronic.errors import ConfigError, DataError
from speedtronic.pure.config import Config
from speedtronic.pure.data.position import Cursor, Share
from speedtronic.pure.random import fold_in, key_from_seed
from speedtronic.shell.data.prepare import Progress, prepare_store, silent
from speedtronic.shell.data.rows import IGNORE, BlockRows, batch_of, read_windows
from speedtronic.shell.data.sources import TextFiles, find_files
from speedtronic.shell.data.store import Store
from speedtronic.shell.data.stream import Batch, RowStream, Schedule, StepBatch
from speedtronic.shell.data.text import TextRules
from speedtronic.shell.data.tokenizers import ByteTokenizer, Tokenizer

DATA_STREAM = 0xDA7A  # separates the data order's randomness from the model's


class Data(Protocol):
    """What a training loop asks of its data."""

    fingerprint: str  # of the contents
    tokenizer: Tokenizer | None
    vocab_size: int | None
    exact: bool  # whether a step's batch is a function of its number
    inexact_because: str | None
    notes: tuple[str, ...]  # what the user should be told once
    has_validation: bool

    def train_batch(self, step: int) -> StepBatch:
        """The micro-batches of this rank in a step."""
        ...

    def validation_batches(self, batch_size: int) -> Iterator[Batch]:
        """The held-out rows, in order, each once."""
        ...

    def bytes_per_token(self) -> float | None:
        """Mean bytes of text per validation target, for bits per byte."""
        ...

    def state_dict(self, step: int) -> dict[str, Any]:
        """The position at the start of ``step``, as JSON values."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a position."""
        ...

    def close(self) -> None:
        """Release files and processes."""
        ...


class TextData:
    """Token sources behind a `RowStream`, with the held-out part of each."""

    exact = True
    inexact_because: str | None = None
    notes: tuple[str, ...] = ()

    def __init__(
        self,
        stream: RowStream,
        held_out: list[tuple[Store, int, int]],
        tokenizer: Tokenizer | None,
        block: int,
        fingerprint: str,
    ) -> None:
        self._stream, self._held_out, self._block = stream, held_out, block
        self.tokenizer, self.fingerprint = tokenizer, fingerprint
        self.vocab_size = tokenizer.vocab_size if tokenizer else None
        self.has_validation = bool(held_out)

    def train_batch(self, step: int) -> StepBatch:
        """The micro-batches of this rank in a step."""
        return self._stream.step(step)

    def validation_batches(self, batch_size: int) -> Iterator[Batch]:
        """The held-out rows, in order; the last row is filled with -100."""
        for tokens, first, stop in self._held_out:
            starts = np.arange(first, stop - 1, self._block)
            for at in range(0, len(starts), batch_size):
                part = starts[at : at + batch_size]
                yield self._validation_batch(tokens, part, stop)

    def _validation_batch(self, tokens: Store, starts: Any, stop: int) -> Batch:
        whole = starts + self._block < stop
        inputs = np.zeros((len(starts), self._block), np.int64)
        labels = np.full_like(inputs, IGNORE)
        inputs[whole], labels[whole] = read_windows(tokens, starts[whole], self._block)
        if not whole[-1]:
            size = stop - 1 - int(starts[-1])
            last = read_windows(tokens, starts[-1:], size)
            inputs[-1, :size], labels[-1, :size] = last[0][0], last[1][0]
        return batch_of(inputs, labels)

    def bytes_per_token(self) -> float | None:
        """Mean bytes of text per validation target."""
        return 1.0 if isinstance(self.tokenizer, ByteTokenizer) else None

    def state_dict(self, step: int) -> dict[str, Any]:
        """The cursor at the start of ``step``."""
        return attrs.asdict(self._stream.cursor(step))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a cursor."""
        self._stream.start = Cursor(**state)

    def close(self) -> None:
        """Nothing to release."""


def open_data(
    config: Config,
    *,
    directory: Path,
    node: int = 0,
    nodes: int = 1,
    rank: int = 0,
    ranks: int = 1,
    progress: Progress = silent,
) -> Data:
    """Open the data that a config names, preparing its token stores first.

    Raises:
        DataError: the data cannot be used.
        ConfigError: the config contradicts itself about the data.
    """
    data = config.data
    if data.text_path is None:
        raise ConfigError("data.text_path: expected a file")
    block = data.block_size or config.model.max_seq_len
    rules = TextRules(separator=data.document_separator)
    source = TextFiles(find_files(data.text_path), rules, data.text_path)
    tokenizer = ByteTokenizer()
    store = prepare_store(source, tokenizer, directory, progress)
    cut = int(store.size * (1 - data.validation_fraction))
    rows = BlockRows(store, 0, cut, block, data.order == "offset")
    if rows.rows < 1:
        raise DataError(
            f"{source.name} has {cut} tokens, block_size {block} needs {block + 1}"
        )
    seed = config.run.seed if data.seed is None else data.seed
    schedule = Schedule(
        key=fold_in(key_from_seed(seed), DATA_STREAM),
        share=Share(node=node, nodes=nodes),
        rank=rank,
        ranks=ranks,
        micro_rows=data.micro_batch_size,
        step_rows=data.target_batch_size,
        shuffle=data.shuffle,
        drop_last=data.drop_last,
    )
    stream = RowStream([rows], [1.0], block, schedule)
    told = json.dumps([store.about.fingerprint])
    fingerprint = hashlib.sha256(told.encode()).hexdigest()
    return TextData(stream, [(store, cut, store.size)], tokenizer, block, fingerprint)
