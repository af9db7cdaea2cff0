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

import attrs
import numpy as np

from speedtronic.errors import DataError
from speedtronic.pure.strict_json import from_json
from speedtronic.shell.data.files import look
from speedtronic.shell.data.numbers import Array, FileNumbers
from speedtronic.shell.data.rows import Tokens

SCHEMA = 1
ABOUT, TOKENS, DOCUMENTS, MASK = (
    "store.json",
    "tokens.bin",
    "documents.bin",
    "mask.bin",
)


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
        values = from_json(path.read_bytes())
        about = About(**values)
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} is not a token store: {error}") from None
    if about.schema != SCHEMA:
        raise DataError(f"{path} has schema {about.schema}, expected {SCHEMA}")
    return about
