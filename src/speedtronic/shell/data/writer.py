"""Write a token store: append, save the progress, go on later, finish at once.

A store under construction is a folder of its own name. Every now and then what was
appended is synced and ``progress.json`` says how much of it is whole and where in
the source it came from; a later process cuts the files back to that and goes on.
"""

import hashlib
import os
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import numpy as np

from speedtronic.errors import DataError
from speedtronic.shell.atomic import decode_json, encode_json, explained, write_bytes
from speedtronic.shell.data.store import ABOUT, DOCUMENTS, MASK, TOKENS, About, Array

PROGRESS = "progress.json"
_DTYPES = ("uint8", "uint16", "uint32")


def dtype_for(vocab_size: int) -> str:
    """The smallest dtype that holds all ids below ``vocab_size``.

    >>> dtype_for(256), dtype_for(257), dtype_for(100000)
    ('uint8', 'uint16', 'uint32')
    """
    for name in _DTYPES:
        if vocab_size <= np.iinfo(name).max + 1:
            return name
    raise DataError(f"a vocabulary of {vocab_size} ids does not fit in 32 bits")


@attrs.frozen(kw_only=True)
class Progress:
    """How much of a store is whole, and where in the source to go on."""

    file: int = 0
    place: int = 0
    tokens: int = 0
    documents: int = 0
    text_bytes: int = 0
    max_id: int = -1
    max_id_at: int = 0
    replaced: int = 0


class _Column:
    """One file of the store: appended to and hashed."""

    def __init__(self, path: Path, keep_bytes: int) -> None:
        with explained(path):
            self._file: BinaryIO = path.open("r+b" if keep_bytes else "wb")
        self._hash = hashlib.sha256()
        while keep_bytes and (chunk := self._file.read(min(keep_bytes, 2**22))):
            self._hash.update(chunk)
            keep_bytes -= len(chunk)
        self._file.truncate(self._file.tell())

    def append(self, data: Any) -> None:
        self._hash.update(data)
        self._file.write(data)

    def sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def sha256(self) -> str:
        return self._hash.hexdigest()


class StoreWriter:
    """Append documents to the folder ``folder``, continuing what is there.

    Raises:
        StorageError: it cannot be written.
    """

    def __init__(
        self, folder: Path, dtype: str, end_of_document: int | None, masked: bool
    ) -> None:
        self.folder = folder
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._end = end_of_document
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.progress = done = _read_progress(folder)
        width = self._dtype.itemsize
        self._columns = {
            TOKENS: _Column(folder / TOKENS, done.tokens * width),
            DOCUMENTS: _Column(folder / DOCUMENTS, done.documents * 16),
        }
        if masked:
            self._columns[MASK] = _Column(folder / MASK, done.tokens)
        self._tokens, self._document_start = done.tokens, done.tokens
        self._text_bytes = 0  # of the document that is being written
        self._max_id, self._max_id_at = done.max_id, done.max_id_at
        self._replaced = done.replaced
        self._ends: list[tuple[int, int]] = []
        self._total_bytes = done.text_bytes

    def append(self, ids: Array, text_bytes: int, learned: bool = True) -> None:
        """Add tokens to the current document."""
        if len(ids) == 0:
            return
        highest = int(ids.max())
        if highest > self._max_id:
            self._max_id_at = self._tokens + int(ids.argmax())
            self._max_id = highest
        with explained(self.folder):
            self._columns[TOKENS].append(ids.astype(self._dtype, copy=False).data)
            if MASK in self._columns:
                self._columns[MASK].append(bytes([learned]) * len(ids))
        self._tokens += len(ids)
        self._text_bytes += text_bytes

    def end_document(self) -> None:
        """Close the current document with its mark; nothing if it has no tokens."""
        if self._tokens == self._document_start:
            return
        if self._end is not None:
            self.append(np.array([self._end]), 0)
        self._ends.append((self._tokens, self._text_bytes))
        self._total_bytes += self._text_bytes
        self._document_start, self._text_bytes = self._tokens, 0

    def count_replaced(self, count: int) -> None:
        """Remember stretches of text that were not UTF-8."""
        self._replaced += count

    def save(self, file: int, place: int) -> None:
        """Make what was appended whole; only between two documents."""
        with explained(self.folder):
            ends = np.array(self._ends, dtype="<i8").reshape(-1, 2)
            self._columns[DOCUMENTS].append(ends.data)
            documents = self.progress.documents + len(self._ends)
            self._ends = []
            for column in self._columns.values():
                column.sync()
        self.progress = Progress(
            file=file,
            place=place,
            tokens=self._tokens,
            documents=documents,
            text_bytes=self._total_bytes,
            max_id=self._max_id,
            max_id_at=self._max_id_at,
            replaced=self._replaced,
        )
        write_bytes(self.folder / PROGRESS, encode_json(attrs.asdict(self.progress)))

    def finish(self, source: str) -> About:
        """Complete the folder: what is left to do is to rename it."""
        self.save(self.progress.file, self.progress.place)
        self.close()
        done = self.progress
        about = About(
            source=source,
            dtype=self._dtype.name,
            tokens=done.tokens,
            documents=done.documents,
            text_bytes=done.text_bytes,
            max_id=done.max_id,
            max_id_at=done.max_id_at,
            end_of_document=self._end,
            replaced=done.replaced,
            sha256={name: c.sha256() for name, c in self._columns.items()},
        )
        write_bytes(self.folder / ABOUT, encode_json(attrs.asdict(about)))
        (self.folder / PROGRESS).unlink()
        return about

    def close(self) -> None:
        """Close the files; what was not saved is cut off by the next writer."""
        for column in self._columns.values():
            column.close()


def _read_progress(folder: Path) -> Progress:
    """The saved progress, or none if there is none that can be read."""
    try:
        return Progress(**decode_json((folder / PROGRESS).read_bytes()))
    except (OSError, ValueError, TypeError):
        return Progress()
