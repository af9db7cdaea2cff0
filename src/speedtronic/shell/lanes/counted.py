"""A lane that counts what passes through it, for whoever watches a node."""

from collections.abc import Collection, Mapping
from pathlib import Path

from speedtronic.shell.lanes.base import Blob, Copy, Lane, Parent


class CountedLane:
    """Another lane with counters; bytes of headers and protocols are not seen here."""

    def __init__(self, lane: Lane) -> None:
        self.inner = lane  # for what only some lanes can do
        self.bytes_up = self.bytes_down = self.commits = 0

    def head(self) -> str | None:
        """As the lane has it."""
        return self.inner.head()

    def names(self, prefix: str, revision: str) -> dict[str, int]:
        """As the lane has it."""
        return self.inner.names(prefix, revision)

    def read(self, name: str, revision: str) -> bytes:
        """As the lane has it."""
        data = self.inner.read(name, revision)
        self.bytes_down += len(data)
        return data

    def fetch(self, name: str, revision: str, path: Path) -> str:
        """As the lane has it."""
        found = self.inner.fetch(name, revision, path)
        self.bytes_down += path.stat().st_size
        return found

    def commit(
        self,
        adds: Mapping[str, Blob],
        deletes: Collection[str] = (),
        *,
        parent: Parent,
        message: str = "",
    ) -> str:
        """As the lane has it."""
        revision = self.inner.commit(adds, deletes, parent=parent, message=message)
        self.commits += 1
        self.bytes_up += sum(map(_size, adds.values()))
        return revision


def _size(blob: Blob) -> int:
    if isinstance(blob, Copy):
        return 0
    return len(blob) if isinstance(blob, bytes) else blob.stat().st_size
