"""Tokenizers: text to ids and back, without special tokens sneaking in.

- ``bytes``: the UTF-8 bytes of the text, 256 ids, reversible.
- a ``tokenizer.json`` of the tokenizers library (an extra).
- ``package.module:factory``: any object with ``encode`` (and ``decode`` to generate).

None of them adds anything to a text by itself. After each document comes one mark, if
the tokenizer has one (`end_of_document` in the config):

- ``auto``: a byte tokenizer has none, so that its ids stay below 256; a tokenizer.json
  has the first of `MARKS` that is in its vocabulary; an object of a factory has its
  ``end_of_document``, ``eos_token_id`` or ``eot_token``.
- ``none``: no mark. Digits: this id. Anything else: this token.

Text that looks like a special token stays text unless ``special_tokens_in_text`` is
set. Ids depend on one document at a time, never on chunks, batches or processes.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from multiprocessing import get_context
from operator import index
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from speedtronic.errors import DataError
from speedtronic.pure.config import Data
from speedtronic.shell.data.datasets import call_factory
from speedtronic.shell.factory import failure

MARKS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]")
CONTENT = "sha256:"  # before the hash of a tokenizer's file
_PROBE = "The quick brown fox, 0123;\n\t caf\xe9 </s> \u4e2d\u6587 \U0001f600"
Array = np.ndarray[Any, Any]


class Tokenizer(Protocol):
    """What the data part asks of a tokenizer."""

    vocab_size: int  # ids are below it
    end_of_document: int | None  # the mark after each document
    identity: str  # two tokenizers with the same identity give the same ids

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without any mark."""
        ...

    def decode(self, ids: list[int]) -> str:
        """The text of ids."""
        ...

    def encode_batches(self, batches: Iterable[list[bytes]]) -> Iterator[list[Array]]:
        """The ids of each text of each batch of UTF-8 texts, in order."""
        ...


class ByteTokenizer:
    """UTF-8 bytes as ids: 256 of them, and the mark if there is one.

    >>> tokens = ByteTokenizer()
    >>> tokens.encode("aé"), tokens.decode([97, 195, 169])
    ([97, 195, 169], 'aé')
    """

    def __init__(self, end_of_document: int | None = None) -> None:
        self.end_of_document = end_of_document
        self.vocab_size = max(256, 1 + (end_of_document or 0))
        self.identity = f"bytes, mark {end_of_document}"

    def encode(self, text: str) -> list[int]:
        """The bytes of the text."""
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        """The text of the bytes; what is not UTF-8 becomes U+FFFD, a mark nothing."""
        return bytes(i for i in ids if i < 256).decode("utf-8", "replace")

    def encode_batches(self, batches: Iterable[list[bytes]]) -> Iterator[list[Array]]:
        """The bytes themselves, without a copy."""
        for texts in batches:
            yield [np.frombuffer(text, np.uint8) for text in texts]


class LibraryTokenizer:
    """A tokenizer of the tokenizers library, which is parallel by itself.

    Args:
        library: the ``tokenizers.Tokenizer``.
        mark: ``data.end_of_document``.
        special: whether text may become a special token.
    """

    def __init__(self, library: Any, mark: str, special: bool) -> None:
        self._library = library
        library.encode_special_tokens = not special
        library.no_padding()
        library.no_truncation()
        self.end_of_document = _mark_of(mark, MARKS, library.token_to_id)
        size = library.get_vocab_size(with_added_tokens=True)
        highest = max(library.get_vocab(with_added_tokens=True).values(), default=0)
        self.vocab_size = max(size, highest + 1, 1 + (self.end_of_document or 0))
        told = [library.to_str(), self.end_of_document, special]
        self.identity = hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without what a template would add."""
        found = self._library.encode(text, add_special_tokens=False)
        return list(found.ids)

    def decode(self, ids: list[int]) -> str:
        """The text of ids, special tokens included."""
        return str(self._library.decode(ids, skip_special_tokens=False))

    def encode_batches(self, batches: Iterable[list[bytes]]) -> Iterator[list[Array]]:
        """The ids, computed on all cores."""
        for texts in batches:
            found = self._library.encode_batch_fast(
                [text.decode() for text in texts], add_special_tokens=False
            )
            yield [np.array(encoding.ids, np.int64) for encoding in found]


class PythonTokenizer:
    """Any object with ``encode``, made by ``package.module:factory``.

    Its vocabulary is its ``vocab_size``, ``n_vocab`` or length. It is known by its
    ``fingerprint`` if it has one, else by its factory, arguments, vocabulary and what
    it makes of a probing text.

    Args:
        made: the object.
        spec: its factory and arguments, from which other processes make their own.
        mark: ``data.end_of_document``.
        workers: processes that encode; 0 for this one.
    """

    def __init__(
        self, made: Any, spec: tuple[str, dict[str, Any]], mark: str, workers: int
    ) -> None:
        self._made, self._spec, self._workers = made, spec, workers
        self.vocab_size = _vocabulary(made, spec[0])
        own = getattr(made, "token_to_id", lambda _: None)
        self.end_of_document = _mark_of(mark, (), own)
        if mark == "auto":
            self.end_of_document = _own_mark(made, spec[0])
        self.vocab_size = max(self.vocab_size, 1 + (self.end_of_document or 0))
        told = getattr(made, "fingerprint", None)
        told = told if isinstance(told, str) else self.encode(_PROBE)
        self.identity = json.dumps(
            [*spec, self.vocab_size, self.end_of_document, told], sort_keys=True
        )

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return _encode(self._made, text, self._spec[0], self.vocab_size)

    def decode(self, ids: list[int]) -> str:
        """The text of ids."""
        if not hasattr(self._made, "decode"):
            raise DataError(f"data.tokenizer {self._spec[0]!r} has no decode")
        try:
            return str(self._made.decode(ids))
        except Exception as error:
            told = failure(error)
            raise DataError(f"{self._spec[0]!r} failed to decode: {told}") from error

    def encode_batches(self, batches: Iterable[list[bytes]]) -> Iterator[list[Array]]:
        """The ids, computed here or in worker processes that end with the batches."""
        if self._workers == 0:
            for texts in batches:
                yield [np.array(self.encode(text.decode())) for text in texts]
            return
        spec, kwargs = self._spec
        work = partial(_work, spec, json.dumps(kwargs), self.vocab_size)
        with ProcessPoolExecutor(self._workers, get_context("spawn")) as pool:
            for texts in batches:
                several = max(1, len(texts) // (4 * self._workers))
                try:
                    encoded = list(pool.map(work, texts, chunksize=several))
                except BrokenProcessPool as error:
                    raise DataError(
                        f"data.tokenizer {spec!r}: a process of it died, perhaps for "
                        "lack of memory; lower data.num_workers"
                    ) from error
                yield encoded


def build_tokenizer(data: Data) -> Tokenizer:
    """The tokenizer that a config names.

    Raises:
        DataError: it cannot be loaded, or has no such mark.
        ConfigError: its factory cannot be found.
    """
    name, mark = data.tokenizer, data.end_of_document
    if name == "bytes":
        return ByteTokenizer(_mark_of(mark, (), lambda _: None))
    if ":" in name:
        made = call_factory(name, "data.tokenizer", data.tokenizer_kwargs)
        library = getattr(made, "backend_tokenizer", made)
        if type(library).__module__.split(".")[0] == "tokenizers":
            return LibraryTokenizer(library, mark, data.special_tokens_in_text)
        if not hasattr(made, "encode"):
            raise DataError(f"data.tokenizer {name!r}: its object has no encode")
        spec = (name, data.tokenizer_kwargs)
        return PythonTokenizer(made, spec, mark, data.num_workers)
    path = tokenizer_file(name)
    if path is None or not path.exists():
        raise DataError(
            f"data.tokenizer: expected bytes, a tokenizer.json or "
            f"package.module:factory, found {name!r}"
        )
    library = _load_library(path)
    return LibraryTokenizer(library, mark, data.special_tokens_in_text)


def tokenizer_file(name: str) -> Path | None:
    """Where a tokenizer's file would be; None for bytes and for factories.

    >>> tokenizer_file("bytes")
    >>> tokenizer_file("no/such/tokenizer.json").as_posix()
    'no/such/tokenizer.json'
    """
    if name == "bytes" or ":" in name:
        return None
    path = Path(name).expanduser()
    return path / "tokenizer.json" if path.is_dir() else path


def tokenizer_content(name: str) -> str:
    """A tokenizer's name, or the hash of its file where it has one.

    >>> tokenizer_content("bytes"), tokenizer_content("my_tokenizers:build")
    ('bytes', 'my_tokenizers:build')
    """
    path = tokenizer_file(name)
    if path is None or not path.is_file():
        return name
    return CONTENT + hashlib.sha256(path.read_bytes()).hexdigest()


def _load_library(path: Path) -> Any:
    try:
        from tokenizers import Tokenizer as Library
    except ImportError:
        raise DataError(
            f"{path} needs the tokenizers package: "
            "pip install 'speedtronic[tokenizers]'"
        ) from None
    try:
        return Library.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise DataError(f"{path} is not a tokenizer.json: {error}") from None


def _mark_of(mark: str, known: tuple[str, ...], find: Any) -> int | None:
    """The id of the mark that ``data.end_of_document`` names."""
    if mark == "none":
        return None
    if mark == "auto":
        ids = (find(name) for name in known)
        return next((found for found in ids if found is not None), None)
    if mark.isdecimal():
        return int(mark)
    found: int | None = find(mark)
    if found is None:
        raise DataError(
            f"data.end_of_document: the tokenizer has no token {mark!r}; "
            "give an id, auto or none"
        )
    return found


def _own_mark(made: Any, spec: str) -> int | None:
    """The mark that an object of a factory names; None if it names none."""
    for name in ("end_of_document", "eos_token_id", "eot_token"):
        found = getattr(made, name, None)
        if not isinstance(found, int):
            continue
        if isinstance(found, bool) or found < 0:
            raise DataError(
                f"data.tokenizer {spec!r}: its {name} is {found}, expected an id; "
                "set data.end_of_document to an id or none"
            )
        return found
    return None


def _vocabulary(made: Any, spec: str) -> int:
    for name in ("vocab_size", "n_vocab", "__len__"):
        found = getattr(made, name, None)
        found = found() if callable(found) else found
        if isinstance(found, int) and found > 0:
            return found
    raise DataError(f"data.tokenizer {spec!r}: its object has no vocab_size")


def _encode(made: Any, text: str, spec: str, vocab_size: int) -> list[int]:
    try:
        found = made.encode(text)
        ids = [index(token) for token in getattr(found, "ids", found)]
    except Exception as error:
        raise DataError(
            f"data.tokenizer {spec!r} failed at {text[:40]!r}: {failure(error)}"
        ) from error
    wrong = next((token for token in ids if not 0 <= token < vocab_size), None)
    if wrong is not None:
        raise DataError(
            f"data.tokenizer {spec!r} gave the id {wrong} for {text[:40]!r}, "
            f"its vocabulary has {vocab_size} ids"
        )
    return ids


def _work(spec: str, kwargs: str, vocab_size: int, text: bytes) -> Array:
    made = _made_once(spec, kwargs)
    return np.array(_encode(made, text.decode(), spec, vocab_size))


@cache
def _made_once(spec: str, kwargs: str) -> Any:
    """The tokenizer of a worker process, made at its first text."""
    return call_factory(spec, "data.tokenizer", json.loads(kwargs))
