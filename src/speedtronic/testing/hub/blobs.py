"""Contents by their sha256, in memory or one file each.

Where there is a folder a content is written beside its place and renamed, so that a
killed emulator leaves no half of one under its name. Nothing is synced to the disk:
this is to survive the end of a process, not of a machine.
"""

import hashlib
import mmap
import os
from collections.abc import Iterable
from itertools import count
from pathlib import Path

import attrs


@attrs.frozen
class Stored:
    """A content that was just added."""

    sha256: str
    size: int  # bytes


class Blobs:
    """A bag of contents.

    >>> blobs = Blobs(None)
    >>> stored = blobs.add([b"he", b"llo"])
    >>> bytes(blobs.view(stored.sha256)), stored.size
    (b'hello', 5)
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._memory: dict[str, bytes] = {}
        self._numbers = count()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def add(self, chunks: Iterable[bytes]) -> Stored:
        """Take a content in, piece by piece."""
        digest = hashlib.sha256()
        size = 0
        if self._folder is None:
            pieces = []
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                pieces.append(chunk)
            self._memory[digest.hexdigest()] = b"".join(pieces)
        else:
            beside = self._folder / f"{os.getpid()}-{next(self._numbers)}.tmp"
            try:
                with beside.open("wb") as file:
                    for chunk in chunks:
                        digest.update(chunk)
                        size += len(chunk)
                        file.write(chunk)
                beside.replace(self._folder / digest.hexdigest())
            finally:
                beside.unlink(missing_ok=True)
        return Stored(digest.hexdigest(), size)

    def __contains__(self, sha256: str) -> bool:
        if self._folder is None:
            return sha256 in self._memory
        return (self._folder / sha256).is_file()

    def view(self, sha256: str) -> memoryview:
        """The content, without a copy of it; it stays readable when it is dropped.

        Raises:
            KeyError: it is not here.
        """
        if self._folder is None:
            return memoryview(self._memory[sha256])
        try:
            with (self._folder / sha256).open("rb") as file:
                if os.fstat(file.fileno()).st_size == 0:
                    return memoryview(b"")
                return memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        except FileNotFoundError:
            raise KeyError(sha256) from None

    def drop(self, sha256: str) -> None:
        """Forget a content."""
        self._memory.pop(sha256, None)
        if self._folder is not None:
            (self._folder / sha256).unlink(missing_ok=True)
