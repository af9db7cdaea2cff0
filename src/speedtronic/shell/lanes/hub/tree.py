"""What a revision holds: names, sizes, and the sums that its contents must have.

The listing of a revision never changes, so it is kept for the newest few. Large files
have their sha256 there, others the sha1 by which git knows them.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import Any

import attrs

from speedtronic.pure.blobname import name_problem
from speedtronic.shell.lanes.hub.client import Client
from speedtronic.shell.lanes.hub.trouble import Failed, Trouble

MARKER = ".speedtronic.json"
"""The file that each commit of a lane rewrites; its name is in no lane's grammar."""

_REVISION = re.compile(r"[0-9a-f]{40}")
_KEPT = 16  # listings
_NOT_A_LISTING = Trouble("transient", "the listing is not the Hub's")
_SUM = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@attrs.frozen
class Entry:
    """A file of a revision."""

    size: int  # bytes
    oid: str  # sha256 of a large file, else git's sha1
    large: bool

    @property
    def key(self) -> str:
        """Names the content, whatever its name."""
        return f"{'sha256' if self.large else 'git'}-{self.oid}"

    def check(self) -> "Check":
        """To be fed with the content."""
        return Check(self)


class Check:
    """Whether bytes are those of an entry."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._size = 0
        if entry.large:
            self._hash = hashlib.sha256()
        else:
            self._hash = hashlib.sha1(b"blob %d\0" % entry.size)

    def update(self, piece: bytes | memoryview) -> None:
        """Add the next bytes."""
        self._hash.update(piece)
        self._size += len(piece)

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._size

    @property
    def right(self) -> bool:
        """Whether these are all the bytes, and the right ones.

        >>> check = Entry(5, git_oid(b"hello"), False).check()
        >>> check.update(b"hell")
        >>> before = check.right
        >>> check.update(b"o")
        >>> before, check.right
        (False, True)
        """
        size, oid = self._entry.size, self._entry.oid
        return self._size == size and self._hash.hexdigest() == oid


@attrs.frozen
class Tree:
    """The listing of one revision."""

    revision: str
    entries: Mapping[str, Entry]  # by name; only names that a lane may have
    marked: bool  # whether a lane ever committed to it


class Trees:
    """Listings by revision, from the Hub or from memory."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: OrderedDict[str, Tree] = OrderedDict()
        self._lock = Lock()

    def at(self, revision: str) -> Tree:
        """The listing of a whole revision.

        Raises:
            Failed: kind ``revision``, there is none or it is not kept; and others.
        """
        if not _REVISION.fullmatch(revision):
            raise Failed(Trouble("revision", "no such revision, or not kept"))
        with self._lock:
            if revision in self._kept:
                self._kept.move_to_end(revision)
                return self._kept[revision]
        url = self._client.address(f"/tree/{revision}?recursive=true&expand=false")
        found = {}
        try:
            for item in self._client.pages(url):
                if item["type"] == "file":
                    found[_text(item["path"])] = _entry(item)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise Failed(_NOT_A_LISTING) from None
        ours = {n: e for n, e in sorted(found.items()) if not name_problem(n)}
        tree = Tree(revision, ours, MARKER in found)
        with self._lock:
            self._kept[revision] = tree
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return tree

    def forget(self) -> None:
        """Ask again for everything: history was rewritten."""
        with self._lock:
            self._kept.clear()


def git_oid(content: bytes) -> str:
    """What git calls a content.

    >>> git_oid(b"hello")
    'b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0'
    """
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _entry(item: Mapping[str, Any]) -> Entry:
    large = item.get("lfs")
    oid = _text(large["oid"] if large else item["oid"])
    if not _SUM.fullmatch(oid):  # it becomes the name of a file
        raise ValueError("no sum")
    size = item["size"]
    if type(size) is not int or size < 0:
        raise ValueError("no size")
    return Entry(size, oid, bool(large))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value
