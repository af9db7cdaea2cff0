"""What a token store is made from: parts that yield token ids, document by document."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

import attrs

from speedtronic.shell.data.documents import Documents
from speedtronic.shell.data.numbers import Array
from speedtronic.shell.data.text import Piece
from speedtronic.shell.data.tokenizers import ByteTokenizer, Tokenizer

BATCH_BYTES = 2**20  # of text that is tokenised together


@attrs.frozen
class Chunk:
    """Token ids of (a stretch of) one document."""

    ids: Array
    text_bytes: int  # of the text that they encode
    read_bytes: int  # of the source, for the progress
    place: int  # where to go on after it
    learned: bool = True
    last: bool = True
    replaced: int = 0  # stretches of the text that were not UTF-8


class Source(Protocol):
    """A source of token ids."""

    name: str
    masked: bool  # whether some tokens do not count for the loss
    vocab_size: int  # ids are below it
    mark: int | None  # to be put after each document

    def identity(self) -> Any:
        """What changes when the ids would, as JSON values."""
        ...

    def parts(self) -> int:
        """Number of parts, which are read in order."""
        ...

    def size(self) -> int:
        """Bytes of all parts, for the progress."""
        ...

    def check(self) -> None:
        """Raise DataError if the source changed since it was opened."""
        ...

    def chunks(self, part: int, start: int) -> Iterator[Chunk]:
        """The ids of a part, from a place on."""
        ...


class TextSource:
    """Documents of text and the tokenizer that turns them into ids."""

    def __init__(self, documents: Documents, tokenizer: Tokenizer) -> None:
        self._documents, self._tokenizer = documents, tokenizer
        self.name, self.masked = documents.name, documents.masked
        self.vocab_size, self.mark = tokenizer.vocab_size, tokenizer.end_of_document
        self.parts, self.size = documents.parts, documents.size
        self.check = documents.check

    def identity(self) -> Any:
        """That of the documents and of the tokenizer."""
        return [self._documents.identity(), self._tokenizer.identity]

    def chunks(self, part: int, start: int) -> Iterator[Chunk]:
        """The ids of a part.

        Bytes are passed on as they come; any other tokenizer sees whole documents.
        """
        pieces = self._documents.pieces(part, start)
        if not isinstance(self._tokenizer, ByteTokenizer):
            pieces = _joined(pieces)
        waiting: deque[list[Piece]] = deque()

        def texts() -> Iterator[list[bytes]]:
            for batch in _batches(pieces):
                waiting.append(batch)
                yield [piece.text for piece in batch]

        for encoded in self._tokenizer.encode_batches(texts()):
            for piece, ids in zip(waiting.popleft(), encoded, strict=True):
                size = len(piece.text)
                yield Chunk(
                    ids,
                    size,
                    size,
                    piece.place,
                    piece.learned,
                    piece.last,
                    piece.replaced,
                )


def _batches(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    batch: list[Piece] = []
    size = 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece.text)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Consecutive pieces of one document that are learned alike, made one."""
    held: list[Piece] = []
    for piece in pieces:
        if held and held[-1].learned != piece.learned:
            yield _join(held)
            held = []
        held.append(piece)
        if piece.last:
            yield _join(held)
            held = []


def _join(pieces: list[Piece]) -> Piece:
    final = pieces[-1]
    if len(pieces) == 1:
        return final
    text = b"".join(piece.text for piece in pieces)
    broken = sum(piece.replaced for piece in pieces)
    return attrs.evolve(final, text=text, replaced=broken)
