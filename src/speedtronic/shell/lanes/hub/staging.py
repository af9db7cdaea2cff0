"""Contents on their way into a commit: uploaded before it, each of them once.

Large files go to the Hub's storage first, by the client's own protocol, and the commit
then names their sums only. So the time between a look and a commit is that of one
small request, also when the commit is tried again: what was uploaded is remembered.

Contents are handed over as open files, which the client sends by plain LFS and not by
Xet. Xet saves what two versions of a file share, and two float models share nothing;
it runs in threads of its own that know neither our timeouts nor a stop; and it is not
spoken by every server. The Hub takes both.
"""

import hashlib
import io
import os
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from typing import BinaryIO, TypeAlias

from speedtronic.errors import StorageError
from speedtronic.shell.lanes.hub.client import Client, Large

_REMEMBERED = 256
_SMALL = 1 << 16  # bytes; a file of this size goes where its like went

Staged: TypeAlias = bytes | Large
"""What a commit says of a file: all of it, or its sum."""


class Staging:
    """Puts contents where a commit finds them; safe between threads."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._uploaded: OrderedDict[Hashable, Large] = OrderedDict()  # by identity
        self._regular: OrderedDict[str, None] = OrderedDict()  # last parts of names
        self._lock = Lock()

    def stage(self, contents: Mapping[str, bytes | Path]) -> dict[str, Staged]:
        """Upload what is large and not there yet.

        Raises:
            Failed: it could not be uploaded.
            StorageError: a file cannot be read.
        """
        known = {name: self._known(name, blob) for name, blob in contents.items()}
        staged = {n: content for n, content in known.items() if content is not None}
        asked = {n: blob for n, blob in contents.items() if n not in staged}
        if asked:
            staged |= self._client.run("api", lambda: self._upload(asked))
        return staged

    def forget(self) -> None:
        """Upload everything again: the Hub may have dropped it."""
        with self._lock:
            self._uploaded.clear()
            self._regular.clear()

    def _known(self, name: str, blob: bytes | Path) -> Staged | None:
        identity, size = _identity(name, blob)
        with self._lock:
            uploaded = self._uploaded.get(identity)
            regular = _last(name) in self._regular and size <= _SMALL
        if uploaded is None and regular:
            with _reading(blob) as file:
                return file.read()
        return uploaded

    def _upload(self, contents: Mapping[str, bytes | Path]) -> dict[str, Staged]:
        staged: dict[str, Staged] = {}
        identities = {name: _identity(name, blob)[0] for name, blob in contents.items()}
        with ExitStack() as stack:
            files = {n: stack.enter_context(_reading(b)) for n, b in contents.items()}
            for name, large in self._client.upload(files).items():
                if large is None:
                    files[name].seek(0)
                    staged[name] = files[name].read()
                else:
                    staged[name] = large
        with self._lock:
            for name, content in staged.items():
                if isinstance(content, Large):
                    self._uploaded[identities[name]] = content
                else:
                    self._regular[_last(name)] = None
            for kept in (self._uploaded, self._regular):
                while len(kept) > _REMEMBERED:
                    kept.popitem(last=False)
        return staged


def _identity(name: str, blob: bytes | Path) -> tuple[Hashable, int]:
    """What stays the same as long as the content does, and its size."""
    ending = os.path.splitext(name)[1]  # by which the Hub decides, beside the size
    if isinstance(blob, bytes):
        return (ending, hashlib.sha256(blob).digest()), len(blob)
    with _explained(blob):
        found = blob.stat()
    file = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    return (ending, *file), found.st_size


def _last(name: str) -> str:
    return name.rpartition("/")[2]


@contextmanager
def _reading(blob: bytes | Path) -> Iterator[BinaryIO]:
    if isinstance(blob, bytes):
        yield io.BytesIO(blob)
        return
    with _explained(blob):
        file = blob.open("rb")
    with file:
        yield file


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
