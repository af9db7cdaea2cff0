"""Turn a source of text into a token store, once, whoever asks first.

Stores live in a folder under a name that is a hash of the source's state (paths,
sizes, times), the rules and the tokenizer. A second process that wants the same
store waits for the first and uses its work; a process that was killed leaves its
progress for the next one.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from speedtronic.errors import DataError
from speedtronic.shell.atomic import explained, sync_folder
from speedtronic.shell.data.sources import Documents, key_of
from speedtronic.shell.data.store import ABOUT, SCHEMA, Store
from speedtronic.shell.data.text import Piece
from speedtronic.shell.data.tokenizers import ByteTokenizer, Tokenizer
from speedtronic.shell.data.writer import StoreWriter, dtype_for

SAVE_BYTES = 64 * 2**20  # of text between two saves of the progress
BATCH_BYTES = 2**20  # of text that is tokenised together
Progress = Callable[[int, int], None]  # bytes of text done, and in all


def silent(done: int, total: int) -> None:
    """A progress report that nobody sees."""
    del done, total


def prepare_store(
    source: Documents, tokenizer: Tokenizer, cache: Path, progress: Progress = silent
) -> Store:
    """The token store of ``source``, from the cache or made now.

    Raises:
        DataError: the source cannot be used; no store is left behind.
        StorageError: the store cannot be written.
    """
    key = key_of([SCHEMA, source.identity(), tokenizer.identity])
    folder = cache / key
    if not (folder / ABOUT).exists():
        with explained(cache):
            cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f".{key}.lock"):
            if not (folder / ABOUT).exists():
                _write(source, tokenizer, folder, cache / f".{key}.part", progress)
    return Store(folder)


def _write(
    source: Documents,
    tokenizer: Tokenizer,
    folder: Path,
    part: Path,
    progress: Progress,
) -> None:
    writer = StoreWriter(
        part,
        dtype_for(tokenizer.vocab_size),
        tokenizer.end_of_document,
        source.masked,
    )
    try:
        _append_all(source, tokenizer, writer, progress)
        source.check()
        if writer.progress.tokens == 0:
            raise DataError(f"{source.name} holds no text")
        writer.finish(source.name)
        with explained(folder):
            os.rename(part, folder)
            sync_folder(folder.parent)
    except DataError:
        writer.close()
        shutil.rmtree(part)
        raise
    finally:
        writer.close()


def _append_all(
    source: Documents, tokenizer: Tokenizer, writer: StoreWriter, progress: Progress
) -> None:
    total = source.size()
    start = writer.progress
    done, unsaved = start.text_bytes, 0
    for part in range(start.file, source.parts()):
        place = start.place if part == start.file else 0
        pieces = source.pieces(part, place, writer.count_replaced)
        for batch in _batches(pieces, isinstance(tokenizer, ByteTokenizer)):
            texts = [piece.text for piece in batch]
            encoded = tokenizer.encode_documents(texts)
            for piece, ids in zip(batch, encoded, strict=True):
                writer.append(ids, len(piece.text), piece.learned)
                if piece.last:
                    writer.end_document()
            size = sum(map(len, texts))
            done, unsaved = done + size, unsaved + size
            if unsaved >= SAVE_BYTES and batch[-1].last:
                writer.save(part, batch[-1].place)
                unsaved = 0
            progress(done, total)
        writer.save(part + 1, 0)
        unsaved = 0


def _batches(pieces: Iterator[Piece], streaming: bool) -> Iterator[list[Piece]]:
    """Pieces to tokenise together; whole documents unless the tokenizer streams."""
    batch: list[Piece] = []
    size = 0
    for piece in pieces if streaming else _joined(pieces):
        batch.append(piece)
        size += len(piece.text)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _joined(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Consecutive pieces of one document, learned alike, made one."""
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
    if len(pieces) == 1:
        return pieces[0]
    final = pieces[-1]
    text = b"".join(piece.text for piece in pieces)
    return Piece(text, final.place, final.learned, final.last)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the end of the process releases, however it comes."""
    with explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
