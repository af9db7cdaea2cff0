"""The caller's side of a lane: local files that are committed from and fetched to."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from speedtronic.errors import StorageError
from speedtronic.shell.atomic import HashedFile, create, explained

PIECE = 1 << 20  # bytes; small enough to stay in the cache between hash and copy


@contextmanager
def replacing(path: Path) -> Iterator[HashedFile]:
    """A new file that takes the place of ``path`` when the block ends without error.

    Raises:
        StorageError: it cannot be written; what was there is untouched.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with create(temporary) as file:
            yield file
        with explained(path):
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def pieces(blob: bytes | Path) -> Iterator[bytes | memoryview]:
    """The bytes of ``blob``, a piece at a time; a piece is gone when the next comes.

    Raises:
        StorageError: the file cannot be read.
    """
    if isinstance(blob, bytes):
        yield blob
        return
    buffer = bytearray(PIECE)
    view = memoryview(buffer)
    try:
        with blob.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                yield view[:count]
    except OSError as error:
        raise StorageError(f"{blob} cannot be read: {error.strerror}") from error


def content_of(blob: bytes | Path) -> bytes:
    """All bytes of ``blob``; for lanes that live in memory anyway."""
    return b"".join(bytes(piece) for piece in pieces(blob))
