"""What a config's data holds: counts, a plot of lengths, the first rows decoded."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import attrs
import numpy as np

from speedtronic.errors import DataError
from speedtronic.pure.config import Config
from speedtronic.pure.data.position import usable
from speedtronic.shell.data.numbers import Array
from speedtronic.shell.data.pipeline import (
    Prepared,
    cut_rows,
    open_data,
    prepare_all,
    schedule_of,
    token_data,
)
from speedtronic.shell.data.prepare import Progress, silent
from speedtronic.shell.data.recipe import check_fields, ingredients
from speedtronic.shell.data.tokenizers import Tokenizer, build_tokenizer

SHOWN_ROWS = 3
_BAR = 40  # characters
_SHOWN = 160  # characters of a row


@attrs.frozen(kw_only=True)
class SourceStats:
    """One source that is trained on."""

    name: str
    tokens: int
    documents: int
    text_bytes: int | None  # None if it was not made from text
    rows_per_epoch: int
    weight: float
    lengths: list[tuple[int, int, int]]  # from, to, documents of that many tokens
    store: str | None  # None for the synthetic stream


@attrs.frozen(kw_only=True)
class Stats:
    """All of a config's data. What samples do not have is None or empty."""

    sources: list[SourceStats]
    train_tokens: int | None
    held_out_tokens: int | None
    vocab_size: int | None
    block_size: int | None
    rows_per_step: int
    steps_per_epoch: int | None  # None for a mixture
    fingerprint: str
    first_rows: list[str]  # of step 0
    notes: list[str]

    def text(self) -> str:
        """Readable lines."""
        return "\n".join(_lines(self))


def measure(config: Config, *, directory: Path, progress: Progress = silent) -> Stats:
    """Prepare what is missing and measure what there is.

    Args:
        config: the whole config.
        directory: where token stores are kept, as for `open_data`.
        progress: told how far the preparation is.

    Raises:
        DataError, ConfigError, StorageError: as `open_data`.
    """
    check_fields(config)
    tokenizer = build_tokenizer(config.data)
    found = ingredients(config.data, tokenizer)
    if found and found[0].samples is not None:
        return _of_samples(config, directory)
    prepared = prepare_all(config, found, tokenizer, directory, progress)
    schedule = schedule_of(config)
    rows = cut_rows(config, prepared, schedule)
    step_rows = schedule.step_rows
    per_epoch = usable(rows[0].rows, step_rows, schedule.drop_last) // step_rows
    batch = token_data(prepared, rows, schedule).train_batch(0).micro_batches[0]
    return Stats(
        sources=[_source(prepared, i, cut.rows) for i, cut in enumerate(rows)],
        train_tokens=sum(map(len, prepared.train)),
        held_out_tokens=sum(map(len, prepared.held_out)),
        vocab_size=prepared.vocab_size,
        block_size=prepared.block,
        rows_per_step=step_rows,
        steps_per_epoch=per_epoch if len(rows) == 1 else None,
        fingerprint=prepared.fingerprint,
        first_rows=[
            _shown(row.tolist(), prepared.tokenizer)
            for row in batch["input_ids"][:SHOWN_ROWS]
        ],
        notes=prepared.notes,
    )


def histogram(lengths: Array) -> list[tuple[int, int, int]]:
    """How many lengths lie between powers of two: (from, to, count).

    >>> histogram(np.array([1, 2, 3, 9]))
    [(1, 1, 1), (2, 3, 2), (4, 7, 0), (8, 15, 1)]
    """
    if len(lengths) == 0:
        return []
    power = np.floor(np.log2(np.maximum(lengths, 1))).astype(np.int64)
    counts = np.bincount(power)
    first = int(power.min())
    return [(2**p, 2 ** (p + 1) - 1, int(counts[p])) for p in range(first, len(counts))]


def _source(prepared: Prepared, number: int, rows: int) -> SourceStats:
    tokens = prepared.train[number]
    about = prepared.stores[number].about if prepared.stores else None
    ends = tokens.ends
    return SourceStats(
        name=tokens.name,
        tokens=about.tokens if about else len(tokens.ids),
        documents=len(ends),
        text_bytes=(about.text_bytes or None) if about else None,
        rows_per_epoch=rows,
        weight=prepared.weights[number],
        lengths=histogram(np.diff(ends, prepend=0)),
        store=str(prepared.stores[number].folder) if about else None,
    )


def _of_samples(config: Config, directory: Path) -> Stats:
    """A dataset of samples has a fingerprint and notes, and nothing to count."""
    data = open_data(config, directory=directory)
    try:
        return Stats(
            sources=[],
            train_tokens=None,
            held_out_tokens=None,
            vocab_size=data.vocab_size,
            block_size=None,
            rows_per_step=config.data.target_batch_size,
            steps_per_epoch=None,
            fingerprint=data.fingerprint,
            first_rows=[],
            notes=list(data.notes),
        )
    finally:
        data.close()


def _shown(ids: list[int], tokenizer: Tokenizer | None) -> str:
    """A row as text, or as ids where nothing decodes them, in one line."""
    text = " ".join(map(str, ids))
    if tokenizer is not None:
        with suppress(DataError):
            text = tokenizer.decode(ids)
    text = repr(text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _lines(stats: Stats) -> Iterator[str]:
    for source in stats.sources:
        yield from _source_lines(source)
    named = {
        "train tokens": stats.train_tokens,
        "held-out tokens": stats.held_out_tokens,
        "vocabulary": stats.vocab_size,
        "positions per row": stats.block_size,
        "rows per step": stats.rows_per_step,
        "steps per epoch": stats.steps_per_epoch,
    }
    for name, value in named.items():
        if value is not None:
            yield f"{name:<18}{value:>16,}"
    yield f"fingerprint       {stats.fingerprint[:16]}"
    for note in stats.notes:
        yield f"note: {note}"
    if stats.first_rows:
        yield "first rows:"
        yield from (f"  {row}" for row in stats.first_rows)


def _source_lines(source: SourceStats) -> Iterator[str]:
    yield source.name
    yield f"  {'documents':<16}{source.documents:>16,}"
    yield f"  {'tokens':<16}{source.tokens:>16,}"
    if source.text_bytes is not None:
        yield f"  {'bytes of text':<16}{source.text_bytes:>16,}"
    yield f"  {'rows per epoch':<16}{source.rows_per_epoch:>16,}"
    if source.store is not None:
        yield f"  store           {source.store}"
    if source.documents > 1:
        yield "  tokens per document"
        most = max(count for _, _, count in source.lengths)
        for first, last, count in source.lengths:
            bar = "#" * -(-count * _BAR // most)
            yield f"  {first:>9,} to {last:>9,} {bar:<{_BAR}} {count:,}"
