"""One file of a revision, whole and checked, from the cache or from the Hub.

A body that breaks off is taken up again where it broke. Bytes that are not those of
the listing are asked for once more, then they are `Corrupt`.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from speedtronic.errors import Corrupt
from speedtronic.shell.atomic import explained
from speedtronic.shell.lanes.files import PIECE
from speedtronic.shell.lanes.hub.cache import Cache
from speedtronic.shell.lanes.hub.client import Client
from speedtronic.shell.lanes.hub.tree import Check, Entry
from speedtronic.shell.lanes.hub.trouble import Failed

_TRIES = 4  # in a row that bring nothing
_DOWNLOADS = 2  # of a content that turns out to be wrong


class Downloads:
    """Contents by name and revision."""

    def __init__(self, client: Client, cache: Cache) -> None:
        self._client = client
        self._cache = cache

    @contextmanager
    def opened(self, name: str, revision: str, entry: Entry) -> Iterator[BinaryIO]:
        """The content as a file, at its beginning.

        Raises:
            Failed: it cannot be had.
            Corrupt: the Hub gives other bytes than its listing says.
        """
        file = self._from_cache(entry) or self._from_hub(name, revision, entry)
        with file:
            yield file

    def _from_cache(self, entry: Entry) -> BinaryIO | None:
        file = self._cache.open(entry.key)
        if file is None:
            return None
        check = entry.check()
        with suppress(OSError):  # a disk that fails is a wrong sum
            while piece := file.read(PIECE):
                check.update(piece)
            if check.right:
                file.seek(0)
                return file
        file.close()
        self._cache.drop(entry.key)
        return None

    def _from_hub(self, name: str, revision: str, entry: Entry) -> BinaryIO:
        url = self._client.place(name, revision)
        for _ in range(_DOWNLOADS):
            file = self._client.run("resolvers", lambda: self._download(url, entry))
            if file is not None:
                return file
        raise Corrupt(f"{name!r} in {revision} has other bytes than its listing says")

    def _download(self, url: str, entry: Entry) -> BinaryIO | None:
        """The file, None if its bytes are wrong; the thread of the call owns it."""
        path, file = self._cache.create()
        try:
            check = self._pull(url, entry, file)
            if not check.right:
                file.close()
                return None
            with explained(path):
                file.flush()
                file.seek(0)
                self._cache.publish(path, entry.key)
            return file
        except BaseException:
            file.close()
            raise
        finally:
            path.unlink(missing_ok=True)

    def _pull(self, url: str, entry: Entry, file: BinaryIO) -> Check:
        check = entry.check()
        failures = 0
        while True:
            before = check.size
            try:
                with self._client.streaming(url, check.size) as (begins, pieces):
                    if begins != check.size:
                        check = _again(entry, file)
                    self._write(pieces, entry, check, file)
                return check
            except Failed as failed:
                if failed.trouble.kind not in ("transient", "unsent"):
                    raise
                failures = 0 if check.size > before else failures + 1
                if failures == _TRIES:
                    raise
                self._client.back_off(failures)

    def _write(
        self, pieces: Iterator[bytes], entry: Entry, check: Check, file: BinaryIO
    ) -> None:
        for piece in pieces:
            check.update(piece)
            with explained(Path(file.name)):
                file.write(piece)
            if check.size > entry.size or self._client.options.stop.is_set():
                return  # whatever comes now, it is wrong, or nobody waits for it


def _again(entry: Entry, file: BinaryIO) -> Check:
    file.seek(0)
    file.truncate()
    return entry.check()
