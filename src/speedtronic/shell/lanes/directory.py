"""A lane in a folder: for processes of one machine, or machines that share a disk.

::

    lane.json             the format, written last when a lane is made
    lock                  held shared by commits, alone by compaction
    log/000000000012      one entry per revision: its whole tree, name to sha256
    blobs/<sha256>        contents
    staging/              what commits are writing

A commit writes and syncs its blobs under temporary names, renames them to their
sums, writes its entry under a temporary name and links it to the next number of the
log. Linking creates the name exclusively and with all its content, so it decides
between competing commits, and a process can be killed at any instruction: either the
entry is there and everything it speaks of is, or nothing happened. What a dead process
leaves in `staging` is removed by the next compaction, which runs when the log is twice
as long as wanted, or after a commit failed (the disk may be full).

Names of blobs are never names of files here, so no name can lead anywhere.
Absent on purpose: Windows, and file systems without hard links and file locks.
"""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from speedtronic.errors import (
    Conflict,
    Corrupt,
    Denied,
    LaneError,
    Missing,
    Unavailable,
)
from speedtronic.pure.strict_json import parse
from speedtronic.shell.atomic import Digest, write_bytes
from speedtronic.shell.lanes.base import (
    ANY,
    Blob,
    Lane,
    Parent,
    check_commit,
    grow,
    split,
)
from speedtronic.shell.lanes.entry import REVISION, Entry
from speedtronic.shell.lanes.files import PIECE, pieces, replacing
from speedtronic.shell.lanes.rooted import Folder, locked, opened, token, translated
from speedtronic.shell.modes import make_file, make_folder

_FORMAT = {"format": "speedtronic lane", "version": 1}
_FOLDERS = ("log", "blobs", "staging")
_NUMBER = re.compile(r"[0-9]{12}", re.ASCII)
_TRIES = 100
_REVISION = re.compile(REVISION, re.ASCII)
_LARGEST_FORMAT = 4096  # bytes of lane.json


class _Open(NamedTuple):
    """The folders of a lane while something is done in them."""

    top: Folder
    log: Folder
    blobs: Folder
    staging: Folder


class DirectoryLane:
    """The lane in the folder ``root``; safe between threads and processes.

    Args:
        root: a lane made before with `DirectoryLane.create`.
        keep: how many of the newest revisions can be read, at least; storage is
            bounded by twice that many.

    Raises:
        Unavailable: there is no lane. A disk that is not mounted looks like this, so
            it is never taken for an empty lane.
        Denied: the folder holds something else.

    >>> import tempfile
    >>> lane = DirectoryLane.create(Path(tempfile.mkdtemp()) / "lane")
    >>> first = lane.commit({"a": b"1"}, parent=None)
    >>> lane.read("a", first)
    b'1'
    """

    def __init__(self, root: Path, *, keep: int = 32) -> None:
        if keep < 1:
            raise ValueError(f"keep is {keep}, expected at least 1")
        self._where = f"lane dir:{root}"
        self._root = Path(os.path.realpath(root))
        self._keep = keep
        with translated(self._where):
            try:
                with opened(self._root, ".") as [top], top.reading("lane.json") as file:
                    found = parse(os.read(file, _LARGEST_FORMAT))
            except FileNotFoundError:
                raise Unavailable(
                    f"{self._where}: no lane there; mount its disk if it has one, or "
                    "create it first if it is new"
                ) from None
            except ValueError:
                found = None
        if found != _FORMAT:
            raise Denied(f"{self._where}: lane.json is not of a lane of this version")

    @classmethod
    def create(cls, root: Path, *, keep: int = 32) -> "DirectoryLane":
        """Make a lane if there is none, and open it.

        Raises:
            Denied: the folder holds other things.
            StorageError: it cannot be written.
        """
        where = f"lane dir:{root}"
        with translated(where):
            make_folder(root)
            found = {p.name for p in root.iterdir() if not p.name.startswith(".")}
            strange = found - {*_FOLDERS, "lock", "lane.json"}
            if strange and "lane.json" not in found:
                raise Denied(f"{where}: holds {min(strange)!r}, expected a new folder")
            for name in _FOLDERS:
                make_folder(root / name)
            make_file(root / "lock")
        if not (root / "lane.json").exists():
            write_bytes(root / "lane.json", json.dumps(_FORMAT).encode())
        return cls(root, keep=keep)

    def head(self) -> str | None:
        """See `Lane`."""
        with self._open() as at:
            newest = self._newest(at)
        return newest.revision if newest else None

    def names(self, prefix: str, revision: str) -> dict[str, int]:
        """See `Lane`."""
        with self._open() as at:
            tree = self._entry(at, revision).tree
        return {name: d.size for name, d in tree.items() if name.startswith(prefix)}

    def read(self, name: str, revision: str) -> bytes:
        """See `Lane`."""
        with self._open() as at:
            return b"".join(self._content(at, name, revision))

    def fetch(self, name: str, revision: str, path: Path) -> str:
        """See `Lane`."""
        with self._open() as at, replacing(path) as file:
            for piece in self._content(at, name, revision):
                file.write(piece)
            return file.digest().sha256

    def commit(
        self,
        adds: Mapping[str, Blob],
        deletes: Collection[str] = (),
        *,
        parent: Parent,
        message: str = "",
    ) -> str:
        """See `Lane`."""
        check_commit(adds, deletes)
        try:
            with self._open() as at, locked(at.top, "lock", alone=False, wait=True):
                revision = self._commit(at, adds, deletes, parent, message)
                full = len(_serials(at)) > 2 * self._keep
        except LaneError:
            with suppress(LaneError):
                self.compact()  # of what was written in vain; the disk may be full
            raise
        if full:
            self.compact()
        return revision

    def compact(self) -> bool:
        """Drop what only revisions older than the newest ``keep`` need.

        Returns:
            False if commits were under way, and nothing was dropped.
        """
        with (
            self._open() as at,
            locked(at.top, "lock", alone=True, wait=False) as alone,
        ):
            if alone:
                self._compact(at)
            return alone

    def problems(self) -> list[str]:
        """What is wrong with the kept revisions; empty when every bit is right."""
        told: list[str] = []
        needed: dict[Digest, str] = {}
        before: Entry | None = None
        with self._open() as at:
            for serial in _serials(at):
                try:
                    entry = self._load(at, serial)
                except FileNotFoundError:
                    continue  # dropped meanwhile
                except Corrupt as error:
                    told.append(str(error))
                    continue
                if before and entry.previous != before.revision:
                    told.append(f"{self._where}: {entry.revision} follows on nothing")
                before = entry
                needed |= {digest: entry.revision for digest in entry.tree.values()}
            for digest, revision in needed.items():
                try:
                    for _ in self._bytes(at, digest, revision):
                        pass
                except Corrupt as error:
                    told.append(str(error))
                except Missing:
                    pass  # dropped meanwhile
        return told

    @contextmanager
    def _open(self) -> Iterator[_Open]:
        with (
            translated(self._where),
            opened(self._root, ".", *_FOLDERS) as [top, log, blobs, staging],
        ):
            yield _Open(top, log, blobs, staging)

    def _commit(
        self,
        at: _Open,
        adds: Mapping[str, Blob],
        deletes: Collection[str],
        parent: Parent,
        message: str,
    ) -> str:
        self._agree(parent, self._newest(at))
        outside, copies = split(adds)
        new = {name: _store(at, blob) for name, blob in outside.items()}
        at.blobs.sync()
        while True:
            newest = self._newest(at)
            self._agree(parent, newest)
            entry = Entry(
                serial=newest.serial + 1 if newest else 1,
                previous=newest.revision if newest else None,
                nonce=token(),
                message=message,
                tree=grow(
                    self._where, newest.tree if newest else {}, new, copies, deletes
                ),
            )
            if self._append(at, entry):
                return entry.revision

    def _agree(self, parent: Parent, newest: Entry | None) -> None:
        head = newest.revision if newest else None
        if parent is not ANY and parent != head:
            raise Conflict(f"{self._where}: head is {head!r}, expected {parent!r}")

    def _append(self, at: _Open, entry: Entry) -> bool:
        """Whether ``entry`` has become the next of the log."""
        name = _file_of(entry.serial)
        at.staging.write(entry.nonce, iter([entry.encode()]))
        try:
            if not at.staging.link(entry.nonce, at.log, name):
                # A network file system may have lost the answer to our own link.
                if self._load(at, entry.serial).nonce != entry.nonce:
                    return False
        finally:
            at.staging.remove(entry.nonce)
        at.log.sync()
        return True

    def _compact(self, at: _Open) -> None:
        serials = _serials(at)
        entries = [self._load(at, serial) for serial in serials[-self._keep :]]
        for serial in serials[: -self._keep]:
            at.log.remove(_file_of(serial))
        at.log.sync()  # an entry never outlives its blobs
        needed = {digest.sha256 for entry in entries for digest in entry.tree.values()}
        for name in set(at.blobs.names()) - needed:
            at.blobs.remove(name)
        for name in at.staging.names():
            at.staging.remove(name)

    def _newest(self, at: _Open) -> Entry | None:
        for _ in range(_TRIES):
            serials = _serials(at)
            if not serials:
                return None
            with suppress(FileNotFoundError):  # dropped meanwhile: there is a newer
                return self._load(at, serials[-1])
        raise Unavailable(f"{self._where}: the log changes faster than it can be read")

    def _entry(self, at: _Open, revision: str) -> Entry:
        form = _REVISION.fullmatch(revision)
        with suppress(FileNotFoundError):
            entry = self._load(at, int(form[1])) if form else None
            if entry and entry.revision == revision:
                return entry
        raise Missing(f"{self._where}: no revision {revision!r}, or not kept")

    def _load(self, at: _Open, serial: int) -> Entry:
        with at.log.reading(_file_of(serial)) as file:
            text = b"".join(_blocks(file))
        name = _file_of(serial)
        try:
            entry = Entry.decode(text)
        except Corrupt as error:
            raise Corrupt(f"{self._where}: log/{name} is damaged: {error}") from None
        if entry.serial != serial:
            raise Corrupt(f"{self._where}: log/{name} is of revision {entry.revision}")
        return entry

    def _content(self, at: _Open, name: str, revision: str) -> Iterator[bytes]:
        tree = self._entry(at, revision).tree
        if name not in tree:
            raise Missing(f"{self._where}: no {name!r} in revision {revision!r}")
        yield from self._bytes(at, tree[name], revision)

    def _bytes(self, at: _Open, digest: Digest, revision: str) -> Iterator[bytes]:
        found, size = hashlib.sha256(), 0
        blob = f"{self._where}: blobs/{digest.sha256}"
        with translated(self._where):
            try:
                with at.blobs.reading(digest.sha256) as file:
                    for block in _blocks(file):
                        found.update(block)
                        size += len(block)
                        yield block
            except FileNotFoundError:
                self._entry(at, revision)  # raises Missing if it was dropped
                raise Corrupt(f"{blob} is missing") from None
        if (found.hexdigest(), size) != (digest.sha256, digest.size):
            raise Corrupt(f"{blob} holds other bytes than were committed")


def _store(at: _Open, blob: bytes | Path) -> Digest:
    found, size = hashlib.sha256(), 0

    def passing() -> Iterator[bytes | memoryview]:
        nonlocal size
        for piece in pieces(blob):
            found.update(piece)
            size += len(piece)
            yield piece

    name = token()
    at.staging.write(name, passing())
    at.staging.move(name, at.blobs, found.hexdigest())
    return Digest(found.hexdigest(), size)


def _blocks(descriptor: int) -> Iterator[bytes]:
    while block := os.read(descriptor, PIECE):
        yield block


def _file_of(serial: int) -> str:
    return f"{serial:012d}"


def _serials(at: _Open) -> list[int]:
    return sorted(int(name) for name in at.log.names() if _NUMBER.fullmatch(name))


_: type[Lane] = DirectoryLane
