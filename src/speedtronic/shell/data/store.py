"""A token store: a folder with the tokens of one source, prepared once.

::

    store.json      what it was made from, counts, hashes
    tokens.bin      the ids of all documents, end to end (u8, u16 or u32)
    documents.bin   i64[documents, 2]: where each ends, and its bytes of text
    mask.bin        u8 per token: 1 if it counts as a target (only with prompts)

All numbers are little-endian. A store is complete or does not exist: it is written
under another name and renamed. Its fingerprint is a hash of what it holds, not of
where it came from, so the same text gives the same fingerprint on any machine.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from speedtronic.errors import Corrupt, DataError
from speedtronic.pure.round import plain
from speedtronic.pure.strict_json import from_json
from speedtronic.shell.data.files import look
from speedtronic.shell.data.numbers import Array, FileNumbers
from speedtronic.shell.data.rows import Tokens
from speedtronic.shell.regular import read_limited

SCHEMA = 1
ABOUT, TOKENS, DOCUMENTS, MASK = (
    "store.json",
    "tokens.bin",
    "documents.bin",
    "mask.bin",
)
FILES = {TOKENS, DOCUMENTS, MASK}
MAX_SOURCE = 1000  # characters
MAX_ABOUT = 1 << 20  # bytes of store.json


@attrs.frozen(kw_only=True)
class About:
    """What ``store.json`` says."""

    source: str  # what it was made from, in words
    dtype: str
    tokens: int
    documents: int
    text_bytes: int
    max_id: int
    max_id_at: int  # the first token that has it
    mark: int | None  # after each document
    replaced: int  # stretches of text that were not UTF-8
    sha256: dict[str, str]  # of every other file
    schema: int = SCHEMA

    @property
    def fingerprint(self) -> str:
        """A hash of what the store holds, whatever it was made from."""
        held = attrs.asdict(self)
        del held["source"], held["replaced"]
        return hashlib.sha256(json.dumps(held, sort_keys=True).encode()).hexdigest()


class Store:
    """A complete store, open for reading.

    Args:
        folder: where it is.
        name: what to call it; by default what it was made from, which another config
            may have called otherwise.

    Raises:
        DataError: the folder is not a complete store.
    """

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.folder = folder
        about = read_about(folder)
        self.about = attrs.evolve(about, source=name or about.source)
        self._check(TOKENS, about.tokens * np.dtype(about.dtype).itemsize)
        self._check(DOCUMENTS, about.documents * 16)
        self.ids = FileNumbers(folder / TOKENS, about.dtype)
        self.mask: FileNumbers | None = None
        if MASK in about.sha256:
            self._check(MASK, about.tokens)
            self.mask = FileNumbers(folder / MASK, "uint8")

    @property
    def files(self) -> list[str]:
        """The names of all files but the description, sorted."""
        return sorted(self.about.sha256)

    def documents(self) -> Array:
        """Where each document ends, and its bytes of text: i64[documents, 2]."""
        if self.about.documents == 0:
            return np.zeros((0, 2), "<i8")
        return np.memmap(self.folder / DOCUMENTS, "<i8", "r").reshape(-1, 2)

    def part(self, first: int, stop: int) -> Tokens:
        """The tokens from ``first`` to before ``stop``."""
        return Tokens(
            name=self.about.source,
            ids=self.ids,
            mask=self.mask,
            ends=self.documents()[:, 0],
            first=first,
            stop=stop,
        )

    def _check(self, name: str, expected: int) -> None:
        path = self.folder / name
        found = look(path).size
        if found != expected:
            raise DataError(
                f"{path} has {found} bytes, expected {expected} by {ABOUT}; "
                "remove the folder to prepare it again"
            )


def read_about(folder: Path) -> About:
    """Read ``store.json``.

    Raises:
        DataError: it is missing, damaged, or of another schema.
    """
    path = folder / ABOUT
    try:
        values = from_json(read_limited(path, MAX_ABOUT))
        about = read_about_of(values, ABOUT)
    except (Corrupt, OSError, ValueError) as error:
        raise DataError(f"{path} is not a token store: {error}") from None
    if about.schema != SCHEMA:
        raise DataError(f"{path} has schema {about.schema}, expected {SCHEMA}")
    return about


def read_about_of(value: Any, where: str) -> About:
    """What a description says that anybody may have written.

    Raises:
        Corrupt: every mistake in one line.
    """
    return About(**plain.record(value, where, _READERS))


def check_documents(ends: Array, about: About) -> str | None:
    """Why a list of documents is not one of a store's tokens; None if it is.

    Args:
        ends: i64[documents, 2], as `Store.documents`.
        about: the store.
    """
    lengths = np.diff(ends[:, 0], prepend=0)
    if (lengths <= 0).any() or lengths.sum() != about.tokens:
        return f"its documents do not end where its {about.tokens} tokens do"
    if (ends[:, 1] < 0).any():
        return "a document has less than no bytes"
    return None


def _source(value: Any, where: str) -> str:
    """A name of files, which may hold anything; it is shown, and nothing goes by it."""
    if not isinstance(value, str):
        raise Corrupt(f"{where}: expected text")
    return "".join(c if c.isprintable() else "?" for c in value[:MAX_SOURCE])


def _sums(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not {TOKENS, DOCUMENTS} <= value.keys() <= FILES:
        raise Corrupt(f"{where}: expected the sums of {TOKENS} and {DOCUMENTS}")
    return {name: _SHA256(told, f"{where}.{name}") for name, told in value.items()}


_SHA256 = plain.text(r"[0-9a-f]{64}", "64 lower-case hex digits")
_READERS: dict[str, plain.Reader[Any]] = {
    "source": _source,
    "dtype": plain.one_of("uint8", "uint16", "uint32"),
    "tokens": plain.integer(),
    "documents": plain.integer(),
    "text_bytes": plain.integer(),
    "max_id": plain.integer(0, 2**32 - 1),
    "max_id_at": plain.integer(),
    "mark": plain.optional(plain.integer(0, 2**32 - 1)),
    "replaced": plain.integer(),
    "sha256": _sums,
    "schema": plain.integer(),
}
