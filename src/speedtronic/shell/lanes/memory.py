"""A lane in a dict, within one process: for tests, examples and as a model."""

import hashlib
from collections.abc import Collection, Mapping
from itertools import count
from pathlib import Path
from threading import Lock
from uuid import uuid4

from speedtronic.errors import Conflict, Missing
from speedtronic.shell.lanes.base import (
    ANY,
    Blob,
    Lane,
    Parent,
    check_commit,
    grow,
    split,
)
from speedtronic.shell.lanes.files import content_of, replacing


class MemoryLane:
    """The contract of `Lane` and nothing else; safe between threads.

    Args:
        keep: how many of the newest revisions can be read.

    >>> lane = MemoryLane()
    >>> first = lane.commit({"a": b"1"}, parent=None)
    >>> lane.read("a", first)
    b'1'
    >>> lane.commit({"a": b"2"}, parent=None)
    Traceback (most recent call last):
    speedtronic.errors.Conflict: memory lane: head is '1-...', expected None
    """

    def __init__(self, *, keep: int = 32) -> None:
        if keep < 1:
            raise ValueError(f"keep is {keep}, expected at least 1")
        self._keep = keep
        self._lock = Lock()
        self._serials = count(1)
        self._trees: dict[str, dict[str, bytes]] = {}  # oldest first

    def head(self) -> str | None:
        """See `Lane`."""
        return next(reversed(self._trees), None)

    def names(self, prefix: str, revision: str) -> dict[str, int]:
        """See `Lane`."""
        tree = self._tree(revision)
        return {name: len(tree[name]) for name in tree if name.startswith(prefix)}

    def read(self, name: str, revision: str) -> bytes:
        """See `Lane`."""
        tree = self._tree(revision)
        if name not in tree:
            raise Missing(f"memory lane: no {name!r} in revision {revision!r}")
        return tree[name]

    def fetch(self, name: str, revision: str, path: Path) -> str:
        """See `Lane`."""
        content = self.read(name, revision)
        with replacing(path) as file:
            file.write(content)
        return hashlib.sha256(content).hexdigest()

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
        outside, copies = split(adds)
        contents = {name: content_of(blob) for name, blob in outside.items()}
        with self._lock:
            head = self.head()
            if parent is not ANY and parent != head:
                raise Conflict(f"memory lane: head is {head!r}, expected {parent!r}")
            before = self._trees[head] if head else {}
            tree = grow("memory lane", before, contents, copies, deletes)
            revision = f"{next(self._serials)}-{uuid4().hex[:12]}"
            self._trees[revision] = tree
            for old in list(self._trees)[: -self._keep]:
                del self._trees[old]
            return revision

    def _tree(self, revision: str) -> dict[str, bytes]:
        with self._lock:
            if revision not in self._trees:
                raise Missing(f"memory lane: no revision {revision!r}, or not kept")
            return self._trees[revision]


_: type[Lane] = MemoryLane
