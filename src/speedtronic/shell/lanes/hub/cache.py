"""Contents by their sums in one bounded folder, shared by all processes of a user.

A content is written beside its place and renamed, so it is there whole or not at all.
What was not used for longest goes first; leftovers of killed processes are files like
others and go the same way. A file that somebody deletes is read to its end by whoever
has it open. Nothing is synced: whoever reads checks the sum, after a power failure too.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from speedtronic.shell.atomic import explained
from speedtronic.shell.modes import PRIVATE_FOLDER, make_folder, open_bytes

_BLOCK = 4096  # bytes that even the smallest file takes


class Cache:
    """A folder with at most ``limit`` bytes.

    Raises from every method:
        StorageError: the folder cannot be written.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    def open(self, key: str) -> BinaryIO | None:
        """A content, open for reading, if it is here."""
        path = self._folder / key
        with explained(self._folder):
            try:
                file = path.open("rb")
            except FileNotFoundError:
                return None
        with suppress(OSError):  # deleted meanwhile, or another user's
            os.utime(path)  # it was just used
        return file

    def create(self) -> tuple[Path, BinaryIO]:
        """A new file, open for writing and reading, to be published."""
        with explained(self._folder):
            make_folder(self._folder, PRIVATE_FOLDER)
            path = self._folder / f"{secrets.token_hex(8)}.part"
            return path, open_bytes(path, "w+b")

    def publish(self, path: Path, key: str) -> None:
        """Give a file that was created its name, and make room for it."""
        try:
            os.replace(path, self._folder / key)
        except FileNotFoundError:
            return  # others made room meanwhile; whoever has it open still reads it
        self._make_room()

    def drop(self, key: str) -> None:
        """Forget a content."""
        (self._folder / key).unlink(missing_ok=True)

    def _make_room(self) -> None:
        found = []
        for entry in os.scandir(self._folder):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            size = max(_BLOCK, status.st_size)
            found.append((status.st_mtime_ns, entry.path, size))
        total = sum(size for _, _, size in found)
        for _, path, size in sorted(found):
            if total <= self._limit:
                break
            Path(path).unlink(missing_ok=True)
            total -= size
