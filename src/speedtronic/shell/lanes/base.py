"""What a lane promises: named blobs in revisions, and a compare-and-swap.

A lane is a line of commits. Each commit makes a revision, an immutable mapping from
names to blobs. Revisions are opaque text and are never used twice, also not after
old ones were dropped. One contract suite checks every lane (`tests/shell/lanes`).

Absent on purpose: branches, history, time stamps and locks. What to write is decided
in `pure`; a lane only writes it. Retries belong to the caller, who alone knows
whether an answer was lost.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

import attrs

from speedtronic.errors import Corrupt, Missing
from speedtronic.pure.blobname import check_name, collision, name_problem

__all__ = [
    "ANY",
    "Anywhere",
    "Blob",
    "Copy",
    "Lane",
    "Parent",
    "check_commit",
    "check_name",
    "grow",
    "name_problem",
    "split",
]

T = TypeVar("T")


class Anywhere(Enum):
    """The type of ``ANY``."""

    ANY = "any"


ANY: Final = Anywhere.ANY
"""As the parent of a commit: whatever the head is. For names that only one writer
can have made up; every other commit names the head that it was decided on."""

Parent: TypeAlias = str | None | Literal[Anywhere.ANY]


@attrs.frozen
class Copy:
    """The bytes that another name has in the revision that is committed upon."""

    name: str


Blob: TypeAlias = bytes | Path | Copy


class Lane(Protocol):
    """Named blobs in revisions. Every method may raise Unavailable or Denied."""

    def head(self) -> str | None:
        """The newest revision known, None for a lane that never had a commit.

        It may lag behind. An outage raises Unavailable and is never None.
        """

    def names(self, prefix: str, revision: str) -> dict[str, int]:
        """The names that begin with ``prefix``, sorted, each with its size in bytes.

        Raises:
            Missing: the revision does not exist or is no longer kept.
        """

    def read(self, name: str, revision: str) -> bytes:
        """The bytes of one small blob.

        Raises:
            Missing: no such name there, or the revision is no longer kept.
            Corrupt: the bytes are not those that were committed, as far as this
                lane can tell; a reader still checks them against its manifest.
        """

    def fetch(self, name: str, revision: str, path: Path) -> str:
        """Copy one blob of any size to the file ``path``; return its sha256 (hex).

        The file appears whole or not at all and replaces what was there. The sum is
        taken while copying. Raises what ``read`` raises, and StorageError when
        ``path`` cannot be written.
        """

    def commit(
        self,
        adds: Mapping[str, Blob],
        deletes: Collection[str] = (),
        *,
        parent: Parent,
        message: str = "",
    ) -> str:
        """Write and delete names in one new revision, all of it or nothing.

        Args:
            adds: new content by name: bytes, a file (which is never loaded whole), or
                a copy of another name, which moves no bytes.
            deletes: names to drop.
            parent: what ``head`` answered (None for the empty lane), to commit only
                if that still is the head; or ``ANY``.
            message: a line for people.

        Returns:
            The new revision.

        Raises:
            Conflict: the head is not ``parent``; nothing was written.
            Unavailable: it may have been written: look before trying again.
            Missing: a name to delete or to copy is not there; nothing was written.
            Denied: not permitted; nothing was written.
            Corrupt: two names would collide; nothing was written.
            ValueError: a name outside the grammar, or nothing to do.
            StorageError: a file to add cannot be read; nothing was written.
        """


def check_commit(adds: Mapping[str, Blob], deletes: Collection[str]) -> None:
    """Refuse a commit that no lane can take.

    Raises:
        ValueError: with one line per mistake.
        TypeError: a blob is of another type.

    >>> check_commit({"a": b"1"}, ["a"])
    Traceback (most recent call last):
    ValueError: name 'a' is both added and deleted
    """
    blobs: Mapping[str, object] = adds
    copied = [blob.name for blob in blobs.values() if isinstance(blob, Copy)]
    told = [name_problem(name) for name in (*adds, *copied, *deletes)]
    told += [
        f"name {name!r} is both added and deleted"
        for name in sorted(adds.keys() & set(deletes))
    ]
    if not adds and not deletes:
        told.append("a commit without adds and deletes would change nothing")
    problems = [line for line in told if line]
    if problems:
        raise ValueError("\n".join(problems))
    for name, blob in blobs.items():
        if not isinstance(blob, bytes | Path | Copy):
            found = type(blob).__name__
            raise TypeError(f"{name!r}: expected bytes, Path or Copy, found {found}")


def grow(
    where: str,
    tree: Mapping[str, T],
    adds: Mapping[str, T],
    copies: Mapping[str, str],
    deletes: Iterable[str],
) -> dict[str, T]:
    """The names of the next revision, sorted.

    Args:
        where: the lane, for messages.
        tree: what is there, by name.
        adds: what is new, by name.
        copies: for a new name, the name in ``tree`` that it copies.
        deletes: names to drop.

    Raises:
        Missing: a name to delete or to copy is not in ``tree``.
        Corrupt: two names of the result cannot both be files. Somebody put one in the
            way; a leader takes it away again.

    >>> grow("here", {"a": 1, "b": 2}, {"c": 3}, {"d": "a"}, ["a"])
    {'b': 2, 'c': 3, 'd': 1}
    """
    gone = set(deletes)
    absent = sorted((gone | set(copies.values())) - tree.keys())
    if absent:
        names = ", ".join(map(repr, absent))
        raise Missing(f"{where}: no {names} to delete or to copy")
    result = {name: content for name, content in tree.items() if name not in gone}
    result |= adds
    result |= {name: tree[source] for name, source in copies.items()}
    clash = collision(sorted(result))
    if clash:
        raise Corrupt(f"{where}: {clash}")
    return dict(sorted(result.items()))


def split(adds: Mapping[str, Blob]) -> tuple[dict[str, bytes | Path], dict[str, str]]:
    """Contents that come from outside, and copies as name to source.

    >>> split({"a": b"1", "b": Copy("c")})
    ({'a': b'1'}, {'b': 'c'})
    """
    contents = {n: blob for n, blob in adds.items() if not isinstance(blob, Copy)}
    copies = {n: blob.name for n, blob in adds.items() if isinstance(blob, Copy)}
    return contents, copies
