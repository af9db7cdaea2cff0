"""The contents of one repository, and the accounts of its large files.

As on the Hub a large file outlives the commits that held it: its bytes count until it
is deleted for good, or until some time after the history was squashed.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import RLock

import attrs

from speedtronic.testing.hub.blobs import Blobs
from speedtronic.testing.hub.disk import LfsObject, Settings
from speedtronic.testing.hub.messages import Refused, storage_full
from speedtronic.testing.hub.quota import Limits
from speedtronic.testing.hub.values import File, lfs_file, regular_file


class Storage:
    """See the module; ``lock`` is the repository's."""

    def __init__(
        self,
        folder: Path | None,
        settings: Settings,
        limits: Limits,
        now: Callable[[], float],
        lock: RLock,
    ) -> None:
        self.blobs = Blobs(None if folder is None else folder / "blobs")
        self._settings = settings
        self._limits = limits
        self._now = now
        self._lock = lock

    def regular(self, content: bytes) -> File:
        """A new small file, ready to be committed."""
        self.blobs.add([content])
        return regular_file(content)

    def receive(self, sha256: str, chunks: Iterable[bytes]) -> None:
        """Take a large file in.

        Raises:
            Refused: 400, its content is another; 403, the storage is full.
        """
        stored = self.blobs.add(chunks)
        if stored.sha256 != sha256:
            self.blobs.drop(stored.sha256)
            raise Refused(400, f"expected sha256 {sha256}, found {stored.sha256}")
        with self._lock:
            self.check(stored.size)
            held = LfsObject(stored.size, self._now())
            self._settings.lfs.setdefault(sha256, held)

    def check(self, more: int) -> None:
        """Refuse ``more`` bytes of large files if they would not fit.

        Raises:
            Refused: 403.
        """
        most = self._limits.storage_bytes
        if most is not None and self._settings.private and self.used + more > most:
            raise storage_full()

    @property
    def used(self) -> int:
        """Bytes of large files, old ones included."""
        with self._lock:
            self._let_go()
            return sum(held.size for held in self._settings.lfs.values())

    def large(self, sha256: str) -> File:
        """A large file that was uploaded before, ready to be committed.

        Raises:
            Refused: 400, it was not.
        """
        with self._lock:
            self._let_go()
            held = self._settings.lfs.get(sha256)
            if held is None:
                raise Refused(400, f"LFS object {sha256} was not uploaded")
            self._settings.lfs[sha256] = attrs.evolve(held, released=None)
            return lfs_file(sha256, held.size)

    def release(self, sums: set[str]) -> None:
        """No commit holds these any more: small files go now, large ones later."""
        with self._lock:
            for sha256 in sums:
                held = self._settings.lfs.get(sha256)
                if held is None:
                    self.blobs.drop(sha256)
                else:
                    when = self._now() + self._limits.squash_grace_s
                    self._settings.lfs[sha256] = attrs.evolve(held, released=when)
            self._let_go()

    def delete(self, sums: set[str]) -> None:
        """Delete large files for good, whoever holds them."""
        with self._lock:
            for sha256 in sums & self._settings.lfs.keys():
                del self._settings.lfs[sha256]
                self.blobs.drop(sha256)

    def _let_go(self) -> None:
        now = self._now()
        over = {
            sha256
            for sha256, held in self._settings.lfs.items()
            if held.released is not None and held.released <= now
        }
        self.delete(over)
