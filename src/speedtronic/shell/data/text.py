"""Text files and JSON-lines files as pieces of documents.

Files are read in chunks of bytes and checked to be UTF-8; a byte-order mark at the
start of a file is dropped. Nothing depends on where a chunk ends.

- Text: a file is one document, or, with a separator, what stands between two
  separators is one. Line ends stay as they are, or all become LF (``newlines: lf``).
- JSON lines: a record ends at LF and nowhere else (not at CR, U+2028 or U+0085),
  blank lines are skipped, and a record is one document.

Documents without any text are skipped. Plain, ``.gz`` and ``.zst`` files are read.
"""

import codecs
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import numpy as np

from speedtronic.errors import DataError
from speedtronic.shell.data.packed import open_stream
from speedtronic.shell.factory import nearest

CHUNK_BYTES = 2**20
_BOM = codecs.BOM_UTF8
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@attrs.frozen
class Piece:
    """A stretch of one document, in UTF-8.

    ``place`` is where to go on after the piece, as a count of what came before it in
    its file; one may resume there if the piece is the ``last`` of its document.
    """

    text: bytes
    place: int
    learned: bool = True  # whether its tokens count for the loss
    last: bool = True
    replaced: int = 0  # stretches that were not UTF-8, up to here since the last piece


@attrs.frozen(kw_only=True)
class TextRules:
    """How files become documents."""

    separator: str | None = None
    newlines: str = "keep"
    errors: str = "strict"
    text_field: str = "text"
    prompt_field: str | None = None
    completion_field: str | None = None

    @property
    def masked(self) -> bool:
        """Whether some tokens do not count for the loss."""
        return self.prompt_field is not None


_Clean = Iterator[tuple[bytes, int]]  # UTF-8, and the stretches that were replaced


def text_pieces(
    path: Path,
    rules: TextRules,
    start: int = 0,
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Piece]:
    """The documents of a text file, in pieces.

    Args:
        path: the file.
        rules: separator, line ends and what to do with bytes that are not UTF-8.
        start: a ``place`` to resume from.
        chunk_bytes: size of the read buffer; it changes no document.

    Raises:
        DataError: the file cannot be read or is not UTF-8, with the byte offset.
    """
    stream = _skip(_cleaned(path, rules, chunk_bytes), start)
    if rules.separator is None:
        yield from _whole(stream, start)
    else:
        yield from _separated(stream, rules.separator.encode(), start)


def json_pieces(path: Path, rules: TextRules, start: int = 0) -> Iterator[Piece]:
    """The documents of a JSON-lines file.

    Raises:
        DataError: the file cannot be read, or a record is not UTF-8, not JSON, or
            lacks a field; with line number and byte offset.
    """
    place = 0
    with open_stream(path) as handle:
        for number, line in enumerate(_lines(handle, path), 1):
            offset, place = place, place + len(line)
            if place <= start:
                continue
            where = f"{path}: line {number} (byte {offset})"
            if number == 1 and line.startswith(_BOM):
                line, offset = line[len(_BOM) :], offset + len(_BOM)
            clean, _, broken = _check(line, path, offset, rules.errors, True)
            if clean.strip():
                for piece in _record(clean, rules, where, place):
                    if piece.last and broken:
                        piece = attrs.evolve(piece, replaced=broken)
                    yield piece


def _chunks(path: Path, chunk_bytes: int) -> Iterator[bytes]:
    with open_stream(path) as handle, _readable(path):
        while chunk := handle.read(chunk_bytes):
            yield chunk


def _lines(handle: BinaryIO, path: Path) -> Iterator[bytes]:
    with _readable(path):
        yield from handle


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what a damaged or vanishing file raises into a `DataError`."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read to its end: {error}") from error


def _cleaned(path: Path, rules: TextRules, chunk_bytes: int) -> _Clean:
    """Checked UTF-8 without byte-order mark, line ends as the rules say."""
    offset, held = 0, b""
    pending_cr = b""
    chunks = _chunks(path, chunk_bytes)
    final = False
    while not final:
        chunk = next(chunks, None)
        final = chunk is None
        data = held + (chunk or b"")
        if offset == 0 and len(data) < len(_BOM) and not final:
            held = data
            continue
        if offset == 0 and data.startswith(_BOM):
            data, offset = data[len(_BOM) :], len(_BOM)
        clean, used, broken = _check(data, path, offset, rules.errors, final)
        held = data[used:]
        offset += used
        if rules.newlines == "lf":
            clean = pending_cr + clean
            pending_cr = b"\r" if clean.endswith(b"\r") and not final else b""
            clean = clean[: len(clean) - len(pending_cr)]
            clean = clean.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if clean:
            yield clean, broken


def _check(
    data: bytes, path: Path, offset: int, errors: str, final: bool
) -> tuple[bytes, int, int]:
    """Clean bytes, how many were used, and how many stretches were replaced."""
    try:
        used = _whole_characters(data, final)
        return data[:used] if used < len(data) else data, used, 0
    except UnicodeDecodeError as error:
        if errors == "strict":
            _refuse(data, path, offset, error)
    text, used = codecs.utf_8_decode(data, "replace", final)
    genuine = data[:used].count(_REPLACEMENT.encode())
    return text.encode(), used, text.count(_REPLACEMENT) - genuine


def _whole_characters(data: bytes, final: bool) -> int:
    """How many bytes of ``data`` are whole characters.

    ASCII ends every character, so where other bytes are rare it is enough to decode
    them, with a space for all that is between: five times as fast as decoding all.

    Raises:
        UnicodeDecodeError: it is not UTF-8, or ``final`` and the end is cut off.
    """
    if data.isascii():
        return len(data)
    values = np.frombuffer(data, np.uint8)
    high = np.flatnonzero(values >= 0x80)
    if len(high) < len(data) // 8:
        gaps = np.flatnonzero(np.diff(high) > 1) + 1
        rare = np.insert(values[high], gaps, ord(" ")).tobytes()
        rare += b" " if high[-1] + 1 < len(data) else b""
        try:
            _, used = codecs.utf_8_decode(rare, "strict", final)
            return len(data) - (len(rare) - used)
        except UnicodeDecodeError:
            pass  # decoding everything tells where
    _, used = codecs.utf_8_decode(data, "strict", final)
    return used


def _refuse(data: bytes, path: Path, offset: int, error: UnicodeDecodeError) -> None:
    found = " ".join(f"{byte:02x}" for byte in data[error.start : error.end])
    place = offset + error.start
    wide = place == 0 and data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    reason = "it looks like UTF-16" if wide else error.reason
    raise DataError(
        f"{path} is not UTF-8: byte {found} at offset {place} ({reason}); "
        "convert the file, or set data.encoding_errors: replace"
    ) from None


def _skip(stream: _Clean, count: int) -> _Clean:
    """Leave ``count`` bytes out; a chunk that was begun before was counted before."""
    for chunk, broken in stream:
        if count < len(chunk):
            yield chunk[count:], broken if count == 0 else 0
        count = max(0, count - len(chunk))


def _whole(stream: _Clean, place: int) -> Iterator[Piece]:
    """The rest of a file as one document; its last piece is known one chunk later."""
    current = next(stream, None)
    while current is not None:
        text, broken = current
        current = next(stream, None)
        place += len(text)
        yield Piece(text, place, last=current is None, replaced=broken)


def _separated(stream: _Clean, mark: bytes, place: int) -> Iterator[Piece]:
    """Documents between marks; a long one comes in pieces, however long it is."""
    held, broken, begun = b"", 0, False
    for chunk, more in stream:
        broken += more
        *documents, held = (held + chunk).split(mark)
        for document in documents:
            place += len(document) + len(mark)
            if document or begun:
                yield Piece(document, place, replaced=broken)
                broken, begun = 0, False
        safe = len(held) - len(mark)  # a mark may begin after it, or the text end
        if safe > 0:
            place += safe
            yield Piece(held[:safe], place, last=False, replaced=broken)
            held, broken, begun = held[safe:], 0, True
    if held or begun:
        yield Piece(held, place + len(held), replaced=broken)


def _record(text: bytes, rules: TextRules, where: str, place: int) -> Iterator[Piece]:
    try:
        record = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON: {error}") from None
    if not isinstance(record, dict):
        found = type(record).__name__
        raise DataError(f"{where}: expected an object, found {found}")
    yield from record_pieces(record, rules, where, place)


def record_pieces(
    record: Mapping[str, Any], rules: TextRules, where: str, place: int
) -> Iterator[Piece]:
    """A record of named fields as the pieces of one document.

    With prompt and completion fields the prompt is read and the completion learned.

    Raises:
        DataError: a field is missing or is not text.
    """
    prompt, completion = rules.prompt_field, rules.completion_field
    if prompt is None:
        text = _field(record, rules.text_field, where)
        if text:
            yield Piece(text, place)
        return
    read = _field(record, prompt, where)
    learned = _field(record, completion or rules.text_field, where)
    if read:
        yield Piece(read, place, learned=False, last=not learned)
    if learned:
        yield Piece(learned, place)


def _field(record: Mapping[str, Any], name: str, where: str) -> bytes:
    if name not in record:
        has = f"it has {', '.join(record)}{nearest(name, record)}"
        raise DataError(f"{where}: no field {name!r}; {has}")
    value = record[name]
    if not isinstance(value, str):
        found = type(value).__name__
        raise DataError(f"{where}: field {name!r} is {found}, expected text")
    return encoded(value, f"{where}: field {name!r}")


def encoded(text: str, where: str) -> bytes:
    """Text as UTF-8.

    Raises:
        DataError: it holds half of a surrogate pair, which UTF-8 has no bytes for.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{where} holds half of a surrogate pair") from None
