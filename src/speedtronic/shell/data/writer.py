"""Write a token store: append, save the progress, go on later, finish at once.

A store under construction is a folder of its own name. Every now and then what was
appended is synced and ``progress.json`` says how much of it is whole and where in
the source it came from; a later process cuts the files back to that and goes on.
"""

import hashlib
import os
from collections import deque
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path

import attrs
import numpy as np

from speedtronic.errors import DataError
from speedtronic.pure.strict_json import from_json, to_json
from speedtronic.shell.atomic import explained, write_bytes
from speedtronic.shell.data.numbers import Array
from speedtronic.shell.data.source import Chunk
from speedtronic.shell.data.store import ABOUT, DOCUMENTS, MASK, TOKENS, About
from speedtronic.shell.modes import make_folder, open_bytes

PROGRESS = "progress.json"
_DTYPES = ("uint8", "uint16", "uint32")
_ENTRY_BYTES = 16  # of documents.bin: two i64
_BLOCK_BYTES = 2**20  # hashed and written together
_BLOCKS_AHEAD = 4


def dtype_for(vocab_size: int) -> str:
    """The smallest dtype that holds all ids below ``vocab_size``.

    >>> dtype_for(256), dtype_for(257), dtype_for(100000)
    ('uint8', 'uint16', 'uint32')
    """
    for name in _DTYPES:
        if vocab_size <= np.iinfo(name).max + 1:
            return name
    raise DataError(f"a vocabulary of {vocab_size} ids does not fit in 32 bits")


@attrs.define(kw_only=True)
class Progress:
    """How much of a store there is, and where in the source to go on."""

    part: int = 0
    place: int = 0
    read_bytes: int = 0
    tokens: int = 0
    documents: int = 0
    text_bytes: int = 0
    max_id: int = -1
    max_id_at: int = 0
    replaced: int = 0


class StoreWriter:
    """Append documents to the folder ``folder``, going on with what is there.

    Args:
        folder: made if it does not exist.
        dtype: of the ids.
        mark: the id put after each document, or None.
        masked: whether some tokens do not count for the loss.

    Raises:
        StorageError: it cannot be written.
    """

    def __init__(self, folder: Path, dtype: str, mark: int | None, masked: bool):
        self._folder, self._mark = folder, mark
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._mark_ids = np.array([] if mark is None else [mark], self._dtype)
        with explained(folder):
            make_folder(folder)
        widths = {TOKENS: self._dtype.itemsize, DOCUMENTS: _ENTRY_BYTES}
        widths |= {MASK: 1} if masked else {}
        self.progress = _read_progress(folder, widths)
        self._thread = ThreadPoolExecutor(1, "token-store")
        self._columns = {
            name: _Column(
                folder / name, _entries(self.progress, name) * width, self._thread
            )
            for name, width in widths.items()
        }
        self._now = attrs.evolve(self.progress)  # with what is not saved yet
        self._ends: list[tuple[int, int]] = []
        self._document_start, self._document_bytes = self._now.tokens, 0

    def append(self, chunk: Chunk) -> None:
        """Add tokens to the current document; the last chunk of one closes it.

        A document without tokens is none, and gets no mark.
        """
        self._document_bytes += chunk.text_bytes
        self._now.replaced += chunk.replaced
        with explained(self._folder):
            if len(chunk.ids):
                self._append(chunk.ids, chunk.learned)
            if chunk.last and self._now.tokens > self._document_start:
                self._end_document()
        if chunk.last:
            self._document_start, self._document_bytes = self._now.tokens, 0

    def save(self, part: int, place: int, read_bytes: int) -> None:
        """Make what was appended whole; only between two documents."""
        now = self._now
        now.part, now.place, now.read_bytes = part, place, read_bytes
        self._sync()
        write_bytes(self._folder / PROGRESS, _json(now))
        self.progress = attrs.evolve(now)

    def finish(self, source: str) -> None:
        """Complete the folder; only between two documents."""
        self._sync()
        self.close()
        done = self._now
        about = About(
            source=source,
            dtype=self._dtype.name,
            tokens=done.tokens,
            documents=done.documents,
            text_bytes=done.text_bytes,
            max_id=done.max_id,
            max_id_at=done.max_id_at,
            mark=self._mark,
            replaced=done.replaced,
            sha256={name: c.sha256() for name, c in self._columns.items()},
        )
        write_bytes(self._folder / ABOUT, _json(about))
        (self._folder / PROGRESS).unlink(missing_ok=True)

    @property
    def tokens(self) -> int:
        """How many there are so far."""
        return self._now.tokens

    def close(self) -> None:
        """Close the files; the next writer cuts off what was not saved."""
        self._thread.shutdown()
        for column in self._columns.values():
            column.close()

    def _sync(self) -> None:
        with explained(self._folder):
            self._columns[DOCUMENTS].append(np.array(self._ends, "<i8").reshape(-1))
            for column in self._columns.values():
                column.sync()
        self._ends = []

    def _append(self, ids: Array, learned: bool) -> None:
        now, highest = self._now, int(ids.max())
        if highest > now.max_id:
            now.max_id, now.max_id_at = highest, now.tokens + int(ids.argmax())
        self._columns[TOKENS].append(np.ascontiguousarray(ids, self._dtype))
        if MASK in self._columns:
            self._columns[MASK].append(np.full(len(ids), learned, np.uint8))
        now.tokens += len(ids)

    def _end_document(self) -> None:
        if self._mark is not None:
            self._append(self._mark_ids, learned=True)
        now = self._now
        self._ends.append((now.tokens, self._document_bytes))
        now.documents += 1
        now.text_bytes += self._document_bytes


class _Column:
    """One file of the store: hashed and written by a thread while text is read.

    Both let other threads run, so that reading, checking and tokenising go on.
    """

    def __init__(self, path: Path, keep_bytes: int, thread: Executor) -> None:
        with explained(path):
            self._file = open_bytes(path, "r+b" if keep_bytes else "wb", 0)
        self._hash = hashlib.sha256()
        while keep_bytes:
            kept = self._file.read(min(keep_bytes, _BLOCK_BYTES))
            self._hash.update(kept)
            keep_bytes -= len(kept)
        self._file.truncate(self._file.tell())
        self._thread = thread
        self._waiting: list[Array] = []
        self._size = 0
        self._begun: deque[Future[None]] = deque()

    def append(self, values: Array) -> None:
        """Take over a row of values, which must not change any more."""
        self._waiting.append(values)
        self._size += values.nbytes
        if self._size >= _BLOCK_BYTES:
            self._begin()

    def sync(self) -> None:
        if self._waiting:
            self._begin()
        while self._begun:
            self._begun.popleft().result()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def sha256(self) -> str:
        return self._hash.hexdigest()

    def _begin(self) -> None:
        waiting = self._waiting
        block = waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
        self._waiting, self._size = [], 0
        self._begun.append(self._thread.submit(self._write, block))
        if len(self._begun) > _BLOCKS_AHEAD:
            self._begun.popleft().result()

    def _write(self, block: Array) -> None:
        self._hash.update(block.data)
        left = block.data.cast("B")
        while len(left):
            left = left[self._file.write(left) :]
        if hasattr(os, "posix_fadvise"):
            # On Linux this starts the transfer to the disk, so that syncing is short.
            start, size = self._file.tell() - block.nbytes, block.nbytes
            os.posix_fadvise(self._file.fileno(), start, size, os.POSIX_FADV_DONTNEED)


def _read_progress(folder: Path, widths: dict[str, int]) -> Progress:
    """The saved progress, or none if the files do not hold what it says."""
    try:
        saved = Progress(**from_json((folder / PROGRESS).read_bytes()))
        for name, width in widths.items():
            if (folder / name).stat().st_size < _entries(saved, name) * width:
                return Progress()
    except (OSError, ValueError, TypeError):
        return Progress()
    return saved


def _entries(progress: Progress, name: str) -> int:
    return progress.documents if name == DOCUMENTS else progress.tokens


def _json(value: Progress | About) -> bytes:
    return to_json(attrs.asdict(value)).encode() + b"\n"
